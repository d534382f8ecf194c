"""The options of the demo, on the command line of `manage.py up` and of `make demo`."""

import argparse
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """root, decoder: checkpoints, empty for the packaged weights. generative: whether there is a model below
    the decoder. scale: of the amounts; 1 is the demo that the README shows."""

    root: str = ""
    decoder: str = ""
    generative: bool = False
    scale: float = 1.0

    @classmethod
    def of(cls, options: dict[str, Any]) -> "DemoOptions":
        """The options in the parsed arguments of a command."""
        decoder = options["demo_decoder"]
        generative = options["generative"] or bool(decoder)
        return cls(options["demo_root"], decoder, generative, options["demo_scale"])


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `DemoOptions.of` reads."""
    source = "a checkpoint folder or hub id for the demo's"
    parser.add_argument("--demo-root", default="", help=f"{source} encoder root")
    parser.add_argument("--demo-decoder", default="", help=f"{source} decoder root, for --generative")
    parser.add_argument("--generative", action="store_true", help="add a generative model to the demo")
    parser.add_argument("--demo-scale", type=_scale, default=1.0, help="size of the demo, down to 0.02")


def _scale(text: str) -> float:
    if 0.02 <= (scale := float(text)) <= 1:
        return scale
    raise argparse.ArgumentTypeError("it is a number from 0.02 to 1")

"""What the serving benchmarks share: their options, and how they print what they measured."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch

from benchmarks import harness
from benchmarks.serving.token_sources import Phrases, RealRows
from benchmarks.serving.world import DEFAULT_PET, DEMO, ENCODERS, PAPER_PET, PETS, World
from inference.hplm.devices import pick_device, pick_dtype
from inference.visible_gpus import driver_version

PAPER_TOKENS: Final = 128


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a benchmark runs."""

    device: torch.device
    dtype: torch.dtype

    @property
    def settings(self) -> dict[str, str | int]:
        """For the report."""
        common: dict[str, str | int] = {
            "dtype": str(self.dtype),
            "threads": torch.get_num_threads(),
            "PyTorch": torch.__version__,
        }
        return (self._gpu() if self.device.type == "cuda" else {"device": "cpu"}) | common

    def _gpu(self) -> dict[str, str | int]:
        """The GPU, its memory and compute capability, the driver, and the CUDA that PyTorch was built for."""
        found = torch.cuda.get_device_properties(self.device)
        return {
            "device": found.name,
            "device_gib": round(found.total_memory / 2**30),
            "capability": f"{found.major}.{found.minor}",
            "driver": driver_version(),
            "CUDA": torch.version.cuda or "none",
        }


Measure = Callable[[argparse.Namespace, World], harness.Report]


def arguments(description: str) -> argparse.ArgumentParser:
    """Those of every benchmark, and which encoder, PET, texts, device and batch."""
    parser = harness.arguments(description)
    parser.add_argument("--encoder", choices=sorted(ENCODERS), help="its shape (default: the demo root's)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--threads", type=int, help="of PyTorch on a CPU (default: all cores)")
    parser.add_argument("--rows", type=int, default=32, help="of a batch")
    parser.add_argument("--repeats", type=int, help="of every measurement")
    add_shape(parser)
    return parser


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Which PET and texts: by default those of a user."""
    parser.add_argument(
        "--paper",
        action="store_true",
        help="the shape of the paper's experiments: adapters of 64, and random texts of 128 tokens",
    )
    parser.add_argument("--pet", choices=sorted(PETS), help="of every model (default: a fine-tuning's)")
    parser.add_argument(
        "--tokens", type=int, help="random texts of so many tokens (default: real ones, of their own lengths)"
    )


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The options, with the shape's `pet` and `tokens` (None: real texts)."""
    options = parser.parse_args(argv)
    options.pet = options.pet or (PAPER_PET if options.paper else DEFAULT_PET)
    options.tokens = options.tokens or (PAPER_TOKENS if options.paper else None)
    return options


def machine(options: argparse.Namespace) -> Machine:
    """The device and number format that the options name."""
    if options.threads:
        torch.set_num_threads(options.threads)
    device = pick_device(options.device)
    return Machine(device, pick_dtype(options.dtype, device))


def open_world(options: argparse.Namespace, on: Machine, *, files: int | None = None) -> World:
    """What is served. files: see `World`."""
    encoder = ENCODERS[options.encoder or DEMO.name]
    source = RealRows() if options.tokens is None else Phrases(options.tokens)
    return World(encoder, options.pet, source, on.device, on.dtype, files=files)


def run(parser: argparse.ArgumentParser, measure: Measure, argv: Sequence[str] | None) -> int:
    """Measure, print the table and the figures, and write them where that was asked for."""
    options = parse(parser, argv)
    on = machine(options)
    report = with_settings(measure(options, open_world(options, on)), options, on)
    show(report)
    if options.json:
        harness.write_json(report, options.json)
    return 1 if report.failures else 0


def with_settings(report: harness.Report, options: argparse.Namespace, on: Machine) -> harness.Report:
    """The report, with what was measured and where."""
    shape = {
        "encoder": options.encoder or DEMO.name,
        "pet": options.pet,
        "texts": "real" if options.tokens is None else f"random, of {options.tokens} tokens",
        "rows": options.rows,
    }
    return replace(report, settings={**on.settings, **shape, **report.settings})


def show(report: harness.Report) -> None:
    """Print the table and the figures."""
    print(harness.markdown_table(report.rows))
    print({name: round(value, 3) for name, value in report.figures.items()})
    for failure in report.failures:
        print(failure, file=sys.stderr)

"""`peft` and `adapters` themselves, each in a process of the environment that benchmarks have them in."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from safetensors.torch import load_file
from torch import Tensor

from benchmarks.serving.peers.environment import peers_python

PROGRAM: Final = Path(__file__).with_name("program.py")
NAMES: Final = ("peft", "adapters")
DONE, ENDS = "DONE\n", ("DONE\n", "FAILED\n")
BUILDING_S: Final = 1500
"""How long a test may take that has the environment built first: minutes, more where much else runs."""
UPPER: Final[Mapping[str, Any]] = {"r": 4, "lora_alpha": 8, "layers_to_transform": [2, 3]}
BEHIND: Final[Mapping[str, Any]] = {
    "mh_adapter": True, "output_adapter": True, "reduction_factor": 4, "non_linearity": "relu",
    "original_ln_before": True, "residual_before_ln": False, "original_ln_after": False, "leave_out": [0, 1],
}  # fmt: skip
"""LoRA and bottleneck adapters as a model can have them: in the upper two of four layers."""


class Library:
    """A program that has one of the two. It is started once: to load what it needs takes seconds."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process, self._log = process, log

    def run(self, doing: str, checkpoint: Path, folder: Path, **settings: Any) -> tuple[Tensor, Tensor]:
        """The ids that the library's model was asked, and its logits."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([doing, str(checkpoint), str(folder), settings]) + "\n")
        self._process.stdin.flush()
        said = next((line for line in iter(self._process.stdout.readline, "") if line in ENDS), "")
        assert said == DONE, self._log.read_text()[-3000:]
        found = load_file(f"{folder}.answers.safetensors")
        return found["ids"], found["logits"]


class Libraries:
    """Both."""

    def __init__(self, libraries: Mapping[str, Library]) -> None:
        self._libraries = libraries

    def run(self, doing: str, checkpoint: Path, folder: Path, **settings: Any) -> tuple[Tensor, Tensor]:
        """By the library that `doing` names at its end."""
        return self._libraries[doing.rpartition("-")[2]].run(doing, checkpoint, folder, **settings)


@contextmanager
def started(logs: Path) -> Iterator[Libraries]:
    """Both, until the end of the block. PeerUnavailable where their environment cannot be built."""
    python = peers_python()
    # Nothing they are asked for is on the hub, which is not there for everybody.
    env = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with ExitStack() as stack:
        found = {}
        for name in NAMES:
            log = logs / name
            process = stack.enter_context(
                subprocess.Popen(
                    [str(python), str(PROGRAM)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stack.enter_context(log.open("w")),
                    text=True,
                    env=env,
                )
            )
            stack.callback(process.kill)
            found[name] = Library(process, log)
        yield Libraries(found)

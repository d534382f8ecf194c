"""Other libraries that generate, each in a process and an environment of its own, where they can be had."""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.serving.generation.engine import Spent
from benchmarks.serving.peers.environment import HTTP_PACKAGES, peers_python
from benchmarks.serving.peers.errors import PeerFailed, PeerUnavailable
from benchmarks.serving.peers.generators import GeneratorSettings
from benchmarks.serving.peers.process import PATIENCE_S, PeerProcess

PROGRAM: Final = "benchmarks.serving.peers.generator_program"
PEFT_LOOP, PEFT_MIXED = "PEFT, one after another", "PEFT, mixed batch"


@dataclass(frozen=True, slots=True)
class Library:
    """One of `GENERATORS` and what it runs in. has_one_model: it reads the checkpoint and the prompts in
    every call, and its model is the same for all rows."""

    name: str
    packages: tuple[str, ...]
    has_one_model: bool = False


LIBRARIES: Final[Mapping[str, Library]] = {
    PEFT_LOOP: Library("peft-loop", HTTP_PACKAGES),
    PEFT_MIXED: Library("peft-mixed", HTTP_PACKAGES),
    "openvino-genai": Library("openvino-genai", ("openvino-genai==2026.4.1.0",), has_one_model=True),
    "xllamacpp": Library("xllamacpp", ("xllamacpp==2026.10.11549",), has_one_model=True),
}
Python = Callable[[Library], Path]


class GeneratorPeer:
    """A library in a process of its own. Raises PeerUnavailable where it does not start."""

    def __init__(self, library: Library, settings: GeneratorSettings, python: Path) -> None:
        self._library = library
        argument = json.dumps(asdict(settings))
        self._process = PeerProcess(
            python, PROGRAM, argument, threads=settings.threads, patience_s=PATIENCE_S
        )
        try:
            self._process.receive()
        except PeerFailed as error:
            self._process.end()
            raise PeerUnavailable(str(error)) from error

    def decode(self, steps: int) -> Spent:
        """So many tokens of each row. The time for prompts is taken off."""
        if not self._library.has_one_model:
            return self._ask(steps)
        first, whole = self._ask(1), self._ask(1 + steps)
        return Spent(
            whole.tokens - first.tokens,
            max(whole.cpu_seconds - first.cpu_seconds, 0.0),
            max(whole.seconds - first.seconds, 0.0),
        )

    def end(self) -> None:
        """End the process."""
        self._process.end()

    def _ask(self, steps: int) -> Spent:
        self._process.send({"steps": steps})
        return Spent(**self._process.receive())


def environment(library: Library) -> Path:
    """The Python of the library's environment. Raises PeerUnavailable."""
    return peers_python(packages=library.packages, with_ours=not library.has_one_model)


def start(
    settings: Callable[[str], GeneratorSettings],
    stack: ExitStack,
    *,
    one_model: bool,
    python: Python = environment,
) -> dict[str, GeneratorPeer]:
    """Those that start, by name; the others are left out, with the reason on stderr. one_model: also the
    libraries for one model, which read a checkpoint."""
    found = {}
    for name, library in LIBRARIES.items():
        if library.has_one_model and not one_model:
            continue
        try:
            peer = GeneratorPeer(library, settings(library.name), python(library))
        except PeerUnavailable as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        stack.callback(peer.end)
        found[name] = peer
    return found

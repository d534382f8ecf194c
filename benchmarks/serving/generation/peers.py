"""PEFT as a generator, in a process and an environment of its own, where it can be had."""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Final

from benchmarks.serving.generation.engine import Spent
from benchmarks.serving.peers.environment import HTTP_PACKAGES, PeerFailed, PeerUnavailable, peers_python
from benchmarks.serving.peers.generators import GeneratorSettings
from benchmarks.serving.peers.process import PATIENCE_S, PeerProcess

PROGRAM: Final = "benchmarks.serving.peers.generators"
PEFT_LOOP, PEFT_MIXED = "PEFT, one after another", "PEFT, mixed batch"
WAYS: Final[Mapping[str, str]] = {PEFT_LOOP: "peft-loop", PEFT_MIXED: "peft-mixed"}
"""By the name in the table, one of `GENERATORS`."""


class GeneratorPeer:
    """One of PEFT's ways, in a process of its own. Raises PeerUnavailable where it does not start."""

    def __init__(self, settings: GeneratorSettings) -> None:
        python, argument = peers_python(packages=HTTP_PACKAGES), json.dumps(asdict(settings))
        self._process = PeerProcess(
            python, PROGRAM, argument, threads=settings.threads, patience_s=PATIENCE_S
        )
        try:
            self._process.receive()
        except PeerFailed as error:
            self._process.end()
            raise PeerUnavailable(str(error)) from error

    def decode(self, steps: int) -> Spent:
        """Generate so many tokens of each row."""
        self._process.send({"steps": steps})
        return Spent(**self._process.receive())

    def end(self) -> None:
        """End the process."""
        self._process.end()


def start(settings: Callable[[str], GeneratorSettings], stack: ExitStack) -> dict[str, GeneratorPeer]:
    """Those that start, by name; the others are left out, with the reason on stderr."""
    found = {}
    for name, way in WAYS.items():
        try:
            peer = GeneratorPeer(settings(way))
        except PeerUnavailable as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        stack.callback(peer.end)
        found[name] = peer
    return found

"""A peer's program as the benchmark sees it: started, asked batch by batch, ended."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.serving.peers.environment import peers_python
from benchmarks.serving.peers.errors import PeerFailed, PeerUnavailable
from benchmarks.serving.peers.process import PATIENCE_S, PeerProcess
from benchmarks.serving.peers.schemes import Settings

PROGRAM = "benchmarks.serving.peers.program"


@dataclass(frozen=True, slots=True)
class Check:
    """In standard deviations of the output. difference: the most by which a mixed batch is off from its rows
    alone; apart: how far the answers of two tenants to one row are from each other, on average."""

    difference: float
    apart: float


class Peer:
    """One scheme in a process of its own, on the cores of this one, with as many threads as its settings say.

    `python`: by default this one for the schemes of plain transformers, the peers' environment for others.
    Entering raises PeerUnavailable when there is no environment or the program does not start in it.
    """

    def __init__(
        self, settings: Settings, *, python: Path | None = None, patience_s: float = PATIENCE_S
    ) -> None:
        self._settings = settings
        self._python = python
        self._patience_s = patience_s
        self.resident = 0
        self.versions: dict[str, str] = {}

    def __enter__(self) -> Self:
        plain = self._settings.scheme in ("base", "loop")
        self._process = PeerProcess(
            self._python or (Path(sys.executable) if plain else peers_python()),
            PROGRAM,
            json.dumps(asdict(self._settings)),
            threads=self._settings.threads,
            patience_s=self._patience_s,
        )
        try:
            ready = self._process.receive()["ready"]
        except PeerFailed as error:
            self._process.end()
            raise PeerUnavailable(f"{self._settings.scheme}: {error}") from error
        except BaseException:
            self._process.end()
            raise
        self.resident, self.versions = ready["resident"], ready["versions"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.end()

    def measure(self, *, rows: int, tokens: int, tenants: int, seed: int) -> float:
        """The seconds of one batch, its rows dealt out to so many tenants; PeerFailed when there are none."""
        seconds: float = self._ask(rows=rows, tokens=tokens, tenants=tenants, seed=seed)["seconds"]
        return seconds

    def check(self, *, rows: int, tokens: int, tenants: int, seed: int) -> Check:
        """Whether such a batch is answered right; PeerFailed when there is no answer."""
        return Check(**self._ask(rows=rows, tokens=tokens, tenants=tenants, seed=seed, check=True))

    def _ask(self, **request: int) -> dict[str, Any]:
        self._process.send(request)
        return self._process.receive()

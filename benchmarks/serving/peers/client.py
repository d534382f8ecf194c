"""A peer's program as the benchmark sees it: started, asked batch by batch, ended."""

import json
import os
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.result_cache import ROOT
from benchmarks.serving.peers.environment import peers_python
from benchmarks.serving.peers.errors import PeerFailed, PeerUnavailable
from benchmarks.serving.peers.schemes import Settings

PROGRAM = "benchmarks.serving.peers.program"
PATIENCE_S = 600.0
END_S = 10.0


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
        self._process = self._start()
        try:
            ready = self._answer()["ready"]
        except PeerFailed as error:
            self._end()
            raise PeerUnavailable(f"{self._settings.scheme}: {error}") from error
        except BaseException:
            self._end()
            raise
        self.resident, self.versions = ready["resident"], ready["versions"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def measure(self, *, rows: int, tokens: int, tenants: int, seed: int) -> float:
        """The seconds of one batch, its rows dealt out to so many tenants; PeerFailed when there are none."""
        seconds: float = self._ask(rows=rows, tokens=tokens, tenants=tenants, seed=seed)["seconds"]
        return seconds

    def check(self, *, rows: int, tokens: int, tenants: int, seed: int) -> Check:
        """Whether such a batch is answered right; PeerFailed when there is no answer."""
        return Check(**self._ask(rows=rows, tokens=tokens, tenants=tenants, seed=seed, check=True))

    def _start(self) -> "subprocess.Popen[str]":
        plain = self._settings.scheme in ("base", "loop")
        python = self._python or (Path(sys.executable) if plain else peers_python())
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it is closed with the process
        try:
            return subprocess.Popen(
                [str(python), "-s", "-m", PROGRAM, json.dumps(asdict(self._settings))],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                env=own_environment(self._settings.threads),
            )
        except OSError as error:
            self._log.close()
            raise PeerUnavailable(f"{self._settings.scheme}: {python}: {error.strerror}") from error

    def _ask(self, **request: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerFailed(self._ended()) from error
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        """The next line; there is never more than one on its way."""
        stdout = self._process.stdout
        assert stdout is not None
        if not select.select([stdout], [], [], self._patience_s)[0]:
            self._process.kill()
            raise PeerFailed(f"no answer within {self._patience_s:g} s")
        line = stdout.readline()
        if not line:
            raise PeerFailed(self._ended())
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise PeerFailed(f"no answer, but {line!r}") from error
        if "error" in answer:
            raise PeerFailed(answer["error"])
        return answer

    def _ended(self) -> str:
        code = self._wait()
        self._log.seek(0)
        last = self._log.read().strip().rpartition("\n")[2]
        return f"the program ended with {code}: {last}"

    def _end(self) -> None:
        """Its input closes, which ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._wait()
        self._process.stdout.close()
        self._log.close()

    def _wait(self) -> int:
        """Its exit code; a program that does not end is killed."""
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def own_environment(threads: int) -> dict[str, str]:
    """This process's environment, less what would bring our packages into the peers'."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}

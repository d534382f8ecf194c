"""A FastAPI server (`dedicated`) as the benchmark sees it: started, watched, ended."""

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.serving.peers.dedicated import Settings
from benchmarks.serving.peers.environment import HTTP_PACKAGES, PeerFailed, PeerUnavailable, peers_python
from benchmarks.serving.peers.process import PATIENCE_S, PeerProcess

PROGRAM = "benchmarks.serving.peers.dedicated"


class DedicatedServer:
    """It answers at ``url``. Entering raises PeerUnavailable when there is no environment or it does not
    start.

    python: by default that of the environment with FastAPI.
    """

    def __init__(
        self, settings: Settings, *, python: Path | None = None, patience_s: float = PATIENCE_S
    ) -> None:
        self._settings, self._python, self._patience_s = settings, python, patience_s
        self.url = ""

    def __enter__(self) -> Self:
        self._process = PeerProcess(
            self._python or peers_python(packages=HTTP_PACKAGES),
            PROGRAM,
            json.dumps(asdict(self._settings)),
            threads=self._settings.threads,
            patience_s=self._patience_s,
        )
        try:
            self.url = self._process.receive()["url"]  # once its models are warm
        except PeerFailed as error:
            self._process.end()
            raise PeerUnavailable(f"The FastAPI server did not become ready: {error}") from error
        except BaseException:
            self._process.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.end()

    def cpu_seconds(self) -> float:
        """Processor seconds so far."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)


def start_if_possible(settings: Settings, stack: ExitStack) -> DedicatedServer | None:
    """The server, until the stack ends; None, with a message, where this machine has none."""
    try:
        return stack.enter_context(DedicatedServer(settings))
    except PeerUnavailable as error:
        print(f"{error}\nThe benchmark goes on without the FastAPI server.", file=sys.stderr)
        return None

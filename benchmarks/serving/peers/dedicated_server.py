"""The FastAPI server of dedicated models as the benchmark sees it: started, watched, ended."""

import json
import select
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from benchmarks.result_cache import ROOT
from benchmarks.serving.peers.client import END_S, PATIENCE_S, own_environment
from benchmarks.serving.peers.dedicated import Settings
from benchmarks.serving.peers.environment import HTTP_PACKAGES, peers_python
from benchmarks.serving.peers.errors import PeerUnavailable

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
        python = self._python or peers_python(packages=HTTP_PACKAGES)
        self._log = tempfile.TemporaryFile("w+")
        try:
            self._process = subprocess.Popen(
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
            raise PeerUnavailable(f"FastAPI: {python}: {error.strerror}") from error
        try:
            self.url = self._ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def cpu_seconds(self) -> float:
        """Processor seconds so far."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def _ready(self) -> str:
        """Its address, once its models are warm."""
        stdout = self._process.stdout
        assert stdout is not None
        line = stdout.readline() if select.select([stdout], [], [], self._patience_s)[0] else ""
        if not line:
            self._process.kill()
            self._process.wait()
            self._log.seek(0)
            last = self._log.read().strip().rpartition("\n")[2]
            raise PeerUnavailable(f"The FastAPI server did not become ready: {last}")
        url: str = json.loads(line)["url"]
        return url

    def _end(self) -> None:
        """Its input closes, which ends it; kill it where that is in vain."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()


def start_if_possible(settings: Settings, stack: ExitStack) -> DedicatedServer | None:
    """The server, until the stack ends; None, with a message, where this machine has none."""
    try:
        return stack.enter_context(DedicatedServer(settings))
    except PeerUnavailable as error:
        print(f"{error}\nThe benchmark goes on without the FastAPI server.", file=sys.stderr)
        return None

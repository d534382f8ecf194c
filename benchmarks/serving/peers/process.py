"""A peer's program in a process of its own: JSON lines go in and come out; it ends when its input closes."""

import json
import os
import select
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.result_cache import ROOT
from benchmarks.serving.peers.environment import PeerFailed, PeerUnavailable

PATIENCE_S, END_S = 600.0, 10.0


class PeerProcess:
    """Started by its constructor, which raises PeerUnavailable where it cannot be; `end` it."""

    def __init__(self, python: Path, program: str, argument: str, *, threads: int, patience_s: float) -> None:
        self._patience_s = patience_s
        self.exit_code: int | None = None
        """Once it has ended."""
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it is closed with the process
        try:
            self._process = subprocess.Popen(
                [str(python), "-s", "-m", program, argument],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                env=_own_environment(threads),
            )
        except OSError as error:
            self._log.close()
            raise PeerUnavailable(f"{python}: {error.strerror}") from error

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def send(self, request: dict[str, Any]) -> None:
        """Raises PeerFailed where it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerFailed(self._ended()) from error

    def receive(self) -> dict[str, Any]:
        """The next line; there is never more than one on its way. Raises PeerFailed where there is none."""
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

    def end(self) -> None:
        """Close its input, which ends it; kill it where that is in vain."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self.exit_code = self._wait()
        self._process.stdout.close()
        self._log.close()

    def _ended(self) -> str:
        code = self._wait()
        self._log.seek(0)
        last = self._log.read().strip().rpartition("\n")[2]
        return f"the program ended with {code}: {last}"

    def _wait(self) -> int:
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _own_environment(threads: int) -> dict[str, str]:
    """This process's environment, less what would bring our packages into the peers'."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}

"""Child processes of the launcher, with their output in log files."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from hmi_site.embedded import parent_death

MAX_LOG_BYTES = 16 * 1024**2
LOG_TAIL_LINES = 15
KILL_TIMEOUT_S = 10.0
GROUP_POLL_S = 0.02


class ChildError(RuntimeError):
    """A child could not be started, or exited unexpectedly. The message is shown to the user."""


@dataclass(kw_only=True)
class Child:
    """One child process. Start it from the main thread (see `parent_death`)."""

    name: str
    command: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: Path = Path("/")
    identity: str = ""
    nice: int = 0
    stop_signal: signal.Signals = signal.SIGTERM
    death_signal: signal.Signals = signal.SIGKILL
    stop_timeout_s: float = 20.0
    pass_fds: Sequence[int] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    def start(self) -> None:
        """Start it in a new session, so that Ctrl-C reaches only the launcher, which stops all in order."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.rotate_log()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                wrapped_command(
                    self.command, identity=self.identity, death_signal=self.death_signal, nice=self.nice
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self.env),
                cwd=self.folder,
                start_new_session=True,
                pass_fds=self.pass_fds,
            )

    def rotate_log(self) -> None:
        """Copy a large log to `.1` and truncate it. The writer appends, so it continues in the empty file. If
        the disk is full, there is no copy."""
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            copy = self.log.with_name(f"{self.log.name}.1")
            try:
                shutil.copyfile(self.log, copy)
            except OSError:
                copy.unlink(missing_ok=True)
            os.truncate(self.log, 0)

    @property
    def pid(self) -> int:
        """The process id. The child must have been started."""
        if self.process is None:
            raise ChildError(f"{self.name} has not been started")
        return self.process.pid

    def exit_code(self) -> int | None:
        """The exit code, negative for a signal. None while it runs."""
        return self.process.poll() if self.process else None

    def check_alive(self) -> None:
        """Raise ChildError with the end of its log if it has exited."""
        code = self.exit_code()
        if code is not None:
            raise ChildError(f"{self.name} {describe_exit(code)}.\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The end of the log, and its path."""
        lines = (
            self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        )
        return "\n".join([*lines[-LOG_TAIL_LINES:], f"(log: {self.log})"])

    def stop(self) -> None:
        """Terminate it, wait, then kill its process group. Does nothing if it was not started."""
        self.terminate()
        self.wait_or_kill()

    def terminate(self) -> None:
        """Send the stop signal."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)

    def wait_or_kill(self) -> None:
        """Wait up to the stop timeout, then kill what remains of its process group."""
        if self.process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(self.stop_timeout_s)
        self.kill_group()

    def kill_group(self) -> None:
        """Kill its process group and wait until it is gone. Does nothing if it was not started."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(KILL_TIMEOUT_S)
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while _runs_in_group(self.pid) and time.monotonic() < deadline:
            time.sleep(GROUP_POLL_S)


def wrapped_command(
    command: Sequence[str], *, identity: str, death_signal: signal.Signals, nice: int = 0
) -> list[str]:
    """The command, wrapped so that it ends with this process and runs as ``identity``, if given."""
    options = ["--parent", str(os.getpid()), "--death-signal", str(int(death_signal)), "--nice", str(nice)]
    if identity:
        options += ["--identity", identity]
    return [sys.executable, "-I", "-S", parent_death.__file__, *options, "--", *map(str, command)]


def run_command(
    command: Sequence[str], *, identity: str, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. A failure does not raise."""
    return subprocess.run(
        wrapped_command(command, identity=identity, death_signal=signal.SIGKILL),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=dict(env),
        cwd="/",
        check=False,
    )


def _runs_in_group(group: int) -> bool:
    """Whether a process of the group still runs. Zombies do not count."""
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def clean_environment() -> dict[str, str]:
    """A minimal environment, so that no variable of the shell (PGPORT, LC_ALL) affects a server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def describe_exit(code: int) -> str:
    """An exit code as text."""
    if code == os.EX_UNAVAILABLE:
        return f"ended with exit code {code}, because something that it needs is not available"
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"

"""A program that runs as our child, in the foreground, with its output in a log file."""

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

from hmi_site.embedded import lifeline

LOG_LIMIT_BYTES = 16 * 1024**2
LAST_LINES = 15
KILL_WAIT_S = 10.0
GONE_POLL_S = 0.02


class ChildError(RuntimeError):
    """A child could not start, or ended when it should not; the message is for the person at the terminal."""


@dataclass(kw_only=True)
class Child:
    """One child process and how to stop it. Start it from the main thread (see `lifeline`)."""

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
    inherits: Sequence[int] = ()
    """Numbers of open files that it may use."""
    process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    def start(self) -> None:
        """Start it in a session of its own: Ctrl-C reaches the launcher alone, which stops all in order."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.trim_log()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                tied_command(
                    self.command, identity=self.identity, death_signal=self.death_signal, nice=self.nice
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self.env),
                cwd=self.folder,
                start_new_session=True,
                pass_fds=self.inherits,
            )

    def trim_log(self) -> None:
        """Set a log that has grown large aside, in the place of the one before. Who writes it appends, and
        goes on at the beginning of an empty file."""
        if self.log.exists() and self.log.stat().st_size > LOG_LIMIT_BYTES:
            shutil.copyfile(self.log, self.log.with_name(f"{self.log.name}.1"))
            os.truncate(self.log, 0)

    @property
    def pid(self) -> int:
        """The process id; the child must have been started."""
        if self.process is None:
            raise ChildError(f"{self.name} has not been started")
        return self.process.pid

    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self.process.poll() if self.process else None

    def check_alive(self) -> None:
        """Raise ChildError with the end of its log if it has ended."""
        code = self.exit_code()
        if code is not None:
            raise ChildError(f"{self.name} {describe_exit(code)}.\n{self.last_lines()}")

    def last_lines(self) -> str:
        """The end of its log, and where the log is."""
        lines = (
            self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        )
        return "\n".join([*lines[-LAST_LINES:], f"(log: {self.log})"])

    def stop(self) -> None:
        """Ask it to end, wait, then end its whole group. Harmless when it has not started or has ended."""
        self.ask_to_stop()
        self.await_end()

    def ask_to_stop(self) -> None:
        """Send the signal that ends it in order."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)

    def await_end(self) -> None:
        """Wait for its end as long as it may take, then kill whatever is left of its group."""
        if self.process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(self.stop_timeout_s)
        self.kill_group()

    def kill_group(self) -> None:
        """Kill it and whatever is left of its group, and return when they are gone. Harmless when it has not
        started."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(KILL_WAIT_S)
        deadline = time.monotonic() + KILL_WAIT_S
        while _runs_in_group(self.pid) and time.monotonic() < deadline:
            time.sleep(GONE_POLL_S)


def tied_command(
    command: Sequence[str], *, identity: str, death_signal: signal.Signals, nice: int = 0
) -> list[str]:
    """`command`, run so that it ends with this process, as somebody else if `identity` says so."""
    options = ["--parent", str(os.getpid()), "--death-signal", str(int(death_signal)), "--nice", str(nice)]
    if identity:
        options += ["--identity", identity]
    return [sys.executable, "-I", "-S", lifeline.__file__, *options, "--", *map(str, command)]


def run_tied(
    command: Sequence[str], *, identity: str, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a short command to its end and return its output; never raises for a failure of the command."""
    return subprocess.run(
        tied_command(command, identity=identity, death_signal=signal.SIGKILL),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=dict(env),
        cwd="/",
        check=False,
    )


def _runs_in_group(group: int) -> bool:
    """Whether a process of the group still runs: one that has ended may wait for whoever reaps orphans."""
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def plain_environment() -> dict[str, str]:
    """An environment in which no variable of the person's shell (PGPORT, LC_ALL...) changes a server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"

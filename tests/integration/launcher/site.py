"""A real `manage.py up` in a home of its own, as a test sees it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil

CHECKOUT = Path(__file__).resolve().parents[3]
READY_LINE = "Ctrl-C stops everything."
START_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 90.0
OURS = ("HMI_", "DATABASE_URL", "REDIS_URL", "DJANGO_")


class Site:
    """Started by `start`, waited for by `wait_until_ready`; `end` is safe at any time."""

    def __init__(
        self, home: Path, *, port: int, env: Mapping[str, str] | None = None, checkout: Path = CHECKOUT
    ) -> None:
        self.home = home
        self.checkout = checkout
        self.python = sys.executable
        self.output_file = home.parent / f"{home.name}.output"
        self._env = {**clean_environment(), "HMI_HOME": str(home), "HMI_PORT": str(port), **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *prefix: str) -> "Site":
        """Start the command, optionally behind another one (`sh -c ...`)."""
        home = self.home
        home.parent.mkdir(parents=True, exist_ok=True)
        with self.output_file.open("wb") as output:
            self._process = subprocess.Popen(
                [*prefix, self.python, str(self.checkout / "manage.py"), "up", "--no-demo"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd="/",
                start_new_session=True,
            )
        return self

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The started command."""
        assert self._process is not None
        return self._process

    @property
    def output(self) -> str:
        """All it has printed."""
        return self.output_file.read_text()

    @property
    def url(self) -> str:
        """The URL it printed."""
        return self.output.split("HMI is running at ", 1)[1].split()[0]

    @property
    def port(self) -> int:
        """The port of that URL."""
        return int(self.url.rpartition(":")[2])

    def wait_until_ready(self) -> "Site":
        """Wait for its last line."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while READY_LINE not in self.output:
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.05)
        return self

    def signal(self, number: signal.Signals) -> int:
        """Send a signal to the command and return its exit code."""
        self.process.send_signal(number)
        return self.exit_code()

    def exit_code(self) -> int:
        """Wait for the end."""
        return self.process.wait(STOP_TIMEOUT_S)

    def processes(self) -> list[psutil.Process]:
        """The command and everything it started, at this moment."""
        command = psutil.Process(self.process.pid)
        return [command, *command.children(recursive=True)]

    def child(self, word: str) -> psutil.Process:
        """The direct child whose command line holds `word`."""
        found = [child for child in psutil.Process(self.process.pid).children() if word in _command(child)]
        assert len(found) == 1, found
        return found[0]

    def get(self, path: str) -> httpx.Response:
        """GET, without proxies of the person's environment."""
        return httpx.get(f"{self.url}{path}", trust_env=False, timeout=60)

    def end(self) -> None:
        """Stop it in whatever state it is."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(STOP_TIMEOUT_S)


def clean_environment() -> dict[str, str]:
    """This process's environment without anything that points at the test run's own services."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


def all_gone(processes: list[psutil.Process], *, within_s: float = 60.0) -> list[psutil.Process]:
    """Those of `processes` that still run after a while (hopefully none)."""
    deadline = time.monotonic() + within_s
    while (left := [one for one in processes if _runs(one)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def listening(process: psutil.Process) -> list[Any]:
    """Where it listens for TCP connections; nowhere once it has ended."""
    try:
        return [one for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    except psutil.NoSuchProcess:
        return []


def _command(process: psutil.Process) -> str:
    """Its command line; none once it has ended, which it may while it is looked at."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False

"""The product as `make up` starts it, in a home of its own; what its processes take, seen from outside."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

from benchmarks import harness
from benchmarks.harness import ROOT

READY: Final = re.compile(r"Ctrl-C stops everything\.")
DEMO_ENDED: Final = re.compile(r"The demo is (not )?complete\.")
START_TIMEOUT_S, BUILD_TIMEOUT_S, STOP_TIMEOUT_S = 180.0, 1800.0, 90.0
POLL_S: Final = 0.05
DEMO_SCALE: Final = "0.02"
DEMO: Final = ("--demo-scale", DEMO_SCALE, "--generative")
CHILDREN: Final = {
    "inference worker": "inference.worker",
    "training worker": "--queues training",
    "quick worker": "--queues quick",
    "short worker": "--queues short",
    "long worker": "--queues long",
    "beat": "hmi_site beat",
    "web": "web_server",
    "PostgreSQL": "bin/postgres",
    "Valkey": "valkey-server",
}
"""The launcher's children, and a word of the command line of each."""
Identity = tuple[int, float]
"""The id of a process and when it was created."""


class ProductEnded(Exception):
    """The launcher has ended, or it never became ready."""


class Product:
    """`manage.py up` in a folder: its home, its temporary files and its output are below that."""

    def __init__(self, folder: Path, port: int) -> None:
        self.home, self.temporary = folder / "home", folder / "tmp"
        self.url, self.port, self.starts = f"http://127.0.0.1:{port}", port, 0
        self._output = folder / "output"
        self._process: subprocess.Popen[bytes] | None = None
        self.temporary.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        """Start it and wait until it is ready. Raises ProductEnded."""
        self._start_until(READY, START_TIMEOUT_S)

    def build_demo(self) -> None:
        """Start it and wait until the demo is complete. Raises ProductEnded."""
        if self._start_until(DEMO_ENDED, BUILD_TIMEOUT_S)[1]:
            raise ProductEnded(self._told()[-2000:])

    def _start_until(self, told: re.Pattern[str], within_s: float) -> re.Match[str]:
        self.starts += 1
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "ignore", str(ROOT / "manage.py"), "up", *DEMO],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=ROOT,
                start_new_session=True,
            )
        latest = time.monotonic() + within_s
        while (found := told.search(self._told())) is None:
            if not self.runs() or time.monotonic() > latest:
                raise ProductEnded(self._told()[-2000:])
            time.sleep(POLL_S)
        return found

    def stop(self) -> None:
        """Ask it to stop, and wait; kill it where that is in vain."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def runs(self) -> bool:
        """Whether the launcher is there."""
        return self._process is not None and self._process.poll() is None

    def children(self) -> dict[str, Identity]:
        """The launcher's children that run, by name."""
        found: dict[str, Identity] = {}
        for process in self._below(recursive=False):
            try:
                command = " ".join(process.cmdline())
                if process.status() != psutil.STATUS_ZOMBIE:
                    names = [name for name, word in CHILDREN.items() if word in command]
                    found |= {name: (process.pid, process.create_time()) for name in names}
            except psutil.Error:  # it has just ended
                continue
        return found

    def cpu_seconds(self) -> float:
        """Processor seconds of all its processes so far; of those that ended, where their parent runs on."""
        total = 0.0
        for process in self._below():
            try:
                spent = process.cpu_times()
            except psutil.Error:
                continue
            total += spent.user + spent.system + spent.children_user + spent.children_system
        return total

    def memory_bytes(self) -> Counter[str]:
        """What the launcher and each of its children have in memory, with what these started; pages that
        several processes share count once (PSS)."""
        names = {pid: name for name, (pid, _) in self.children().items()}
        launcher, *_ = [*self._below(), None]
        found = Counter({"launcher": _memory(launcher)} if launcher else {})
        for child in self._below(recursive=False):
            found[names.get(child.pid, "others")] += _memory(child) + sum(map(_memory, _started_by(child)))
        return found

    def disk_bytes(self) -> int:
        """What lies in its home and among its temporary files."""
        return _size(self.home) + _size(self.temporary)

    def log(self, child: str) -> str:
        """What a child has written."""
        return (self.home / "logs" / f"{child.replace(' ', '-')}.log").read_text(errors="replace")

    def _below(self, *, recursive: bool = True) -> list[psutil.Process]:
        if self._process is None:
            return []
        try:
            launcher = psutil.Process(self._process.pid)
            return [*([launcher] if recursive else []), *launcher.children(recursive=recursive)]
        except psutil.Error:
            return []

    def _told(self) -> str:
        return self._output.read_text(errors="replace")

    def _environment(self) -> dict[str, str]:
        """This environment without anything of another installation; webhooks may go to this machine, since
        the receivers of the benchmark are here."""
        return harness.environment() | {
            "HMI_HOME": str(self.home),
            "HMI_PORT": str(self.port),
            "HMI_WEBHOOK_NETWORKS": "127.0.0.0/8",
            "TMPDIR": str(self.temporary),
        }


def _started_by(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.AccessDenied:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _size(folder: Path) -> int:
    return sum(map(_allocated, _files(folder)))


def _files(folder: Path) -> Iterable[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)


def _allocated(file: Path) -> int:
    try:
        return file.lstat().st_blocks * 512
    except OSError:  # it has just been deleted
        return 0

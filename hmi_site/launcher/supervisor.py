"""Restarts processes that exit, with increasing delays."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from hmi_site.embedded.process import Child, ChildError, describe_exit

Ready = Callable[[], bool]
CreateChild = Callable[[], tuple[Child, Ready]]
RESTARTS_FILE = "restarts.json"
RECENT = timedelta(days=1)
POLL_S = 0.2
READY_TIMEOUT_S = 300.0
RESTART_DELAY_S = 1.0
"""The delay of the second restart; it doubles with each further one. The first is immediate."""
MAX_RESTART_DELAY_S = 30.0
TEMPORARY_EXITS = frozenset({os.EX_UNAVAILABLE, os.EX_SOFTWARE})
"""Exit codes of a process whose device is not there, or was lost."""
MAX_EXITS = 5
EXIT_WINDOW_S = 60.0
"""A process that exits MAX_EXITS times within this time, or is not ready in time, is down until it has run
for as long."""


class Service:
    """One process of the product, with its current child and recent exits.

    is_optional: the product also starts while this one is not ready in time, or lacks its device.
    """

    def __init__(self, create_child: CreateChild, *, is_optional: bool = False) -> None:
        self._create_child = create_child
        self.is_optional = is_optional
        self.child, self.ready = create_child()
        self.exits: list[float] = []
        self.launched_at = 0.0
        self.is_down = False
        self.restart_at: float | None = None
        self.starting_since: float | None = None

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.child.name

    @property
    def is_up(self) -> bool:
        """Whether it runs and has been ready."""
        return self.restart_at is None and self.starting_since is None

    def can_start_later(self, *, is_late: bool = False) -> bool:
        """Whether the product starts without it: it is optional, and lacks its device or is late."""
        return self.is_optional and (is_late or self.child.exit_code() in TEMPORARY_EXITS)

    def recreate(self) -> None:
        """Replace the exited child by a new one, which is not started."""
        self.child, self.ready = self._create_child()


class Supervisor:
    """Restarts services that exit: at once, then after 1, 2, 4 and more seconds. It never gives up: the
    others go on, and whoever asks is told which is down. One that exits with EX_UNAVAILABLE is down at once.

    `start` runs it in a thread. If that fails, it sets `failure` and calls `on_failure`. `stop` ends the
    restarts. Call `join` after all children have exited: the kernel kills the children of a thread that ends.
    """

    def __init__(
        self,
        services: Sequence[Service],
        console: Console,
        record_file: Path,
        *,
        on_failure: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.failure: Exception | None = None
        self._services = services
        self._console = console
        self._record = RestartRecord(record_file)
        self._on_failure = on_failure
        self._clock = clock
        self._stopping = threading.Event()
        self._may_end = threading.Event()
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    @property
    def all_up(self) -> bool:
        """Whether no restart is pending of a service that the product cannot do without."""
        return all(service.is_up or service.is_optional for service in self._services)

    def start(self) -> None:
        """Supervise the services until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Start nothing any more. Afterwards the children may be stopped."""
        self._stopping.set()
        with self._starting:
            pass  # wait for a start in progress, whose process id is then known

    def join(self) -> None:
        """End the thread. Call this after all children have exited."""
        self._may_end.set()
        if self._thread.is_alive():
            self._thread.join()

    def check_services(self) -> None:
        """Check every service once."""
        for service in self._services:
            self._check(service)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(POLL_S):
                self.check_services()
        except Exception as error:  # noqa: BLE001 - the product must not run unsupervised
            self.failure = error
            self._on_failure()
        self._may_end.wait()

    def _check(self, service: Service) -> None:
        now = self._clock()
        if service.restart_at is not None:
            if now >= service.restart_at:
                self._start(service)
        elif (code := service.child.exit_code()) is not None:
            self._handle_exit(service, describe_exit(code), is_down=code == os.EX_UNAVAILABLE)
        elif service.starting_since is not None:
            if service.ready():
                self._print(
                    f"[green]✓[/green] {_capitalized(service)}: ready again in {self._start_s(service):.1f} s"
                )
                service.starting_since = None
            elif now - service.starting_since > READY_TIMEOUT_S:
                self._handle_exit(service, f"was not ready within {READY_TIMEOUT_S:.0f} s", is_down=True)
        elif service.is_down and now - service.exits[-1] > EXIT_WINDOW_S:
            self._note_recovery(service)

    def _start(self, service: Service) -> None:
        service.restart_at, service.starting_since = None, self._clock()
        try:
            service.recreate()
            with self._starting:
                if not self._stopping.is_set():
                    service.child.start()
        except (ChildError, OSError) as error:
            self._handle_exit(service, f"could not be started: {error}")

    def _handle_exit(self, service: Service, reason: str, *, is_down: bool = False) -> None:
        """Kill the rest of its process group, which may hold its port or files, and schedule the restart."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # the kernel keeps it: it may hold nothing
            service.child.kill_group()
        now = self._clock()
        service.exits = [*(at for at in service.exits if now - at < EXIT_WINDOW_S), now]
        count = len(service.exits)
        wait_s = 0.0 if count == 1 else min(RESTART_DELAY_S * 2 ** (count - 2), MAX_RESTART_DELAY_S)
        service.restart_at, service.starting_since = now + wait_s, None
        is_news = (is_down or count >= MAX_EXITS) and not service.is_down
        service.is_down = service.is_down or is_news
        self._record.add(service.name, reason, is_down=service.is_down)
        when = f"in {wait_s:g} s" if wait_s else "now"
        self._print(f"[yellow]![/yellow] {_capitalized(service)} {reason}; it is restarted {when}.")
        if is_news:
            self._print(f"[red]✗[/red] {_capitalized(service)} is down; the other processes go on.")
            self._print(escape(service.child.log_tail()))

    def _note_recovery(self, service: Service) -> None:
        service.is_down = False
        self._record.set_up(service.name)
        self._print(f"[green]✓[/green] {_capitalized(service)} is no longer down.")

    def _start_s(self, service: Service) -> float:
        return self._clock() - (service.starting_since or 0.0)

    def _print(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the disk that the output goes to may be full
            self._console.print(f"  {datetime.now().astimezone():%H:%M:%S} {text}", highlight=False)


def wake_main_thread() -> None:
    """Interrupt the main thread, so that it checks for a failure."""
    ident = threading.main_thread().ident
    if ident is not None:
        signal.pthread_kill(ident, signal.SIGCHLD)


def _capitalized(service: Service) -> str:
    return service.name[0].upper() + service.name[1:]


@dataclass(frozen=True, slots=True)
class Restart:
    """The restarts of a process since the product was started, with time and reason of the last exit.
    is_down: it ends again and again."""

    name: str
    count: int
    last_at: str
    reason: str
    is_down: bool = False


class RestartRecord:
    """The file of restarts of one run of the launcher, its only writer."""

    def __init__(self, file: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._file = file
        self._clock = clock
        self._restarts: dict[str, Restart] = {}

    def add(self, name: str, reason: str, *, is_down: bool = False) -> None:
        """Count a restart and write the file."""
        count = self._restarts[name].count + 1 if name in self._restarts else 1
        self._restarts[name] = Restart(name, count, self._clock().isoformat(), reason, is_down)
        self._write()

    def set_up(self, name: str) -> None:
        """The process is no longer down."""
        self._restarts[name] = replace(self._restarts[name], is_down=False)
        self._write()

    def _write(self) -> None:
        """Write the file. A full disk does not stop a restart."""
        partial = self._file.with_suffix(".partial")
        try:
            partial.write_text(
                json.dumps([asdict(restart) for restart in self._restarts.values()]), encoding="utf-8"
            )
            partial.replace(self._file)
        except OSError:
            partial.unlink(missing_ok=True)


def recent_restarts(folder: Path, now: datetime) -> list[Restart]:
    """The restarts of the last day and those of processes that are down, newest first. Empty if there is no
    file."""
    try:
        saved = json.loads((folder / RESTARTS_FILE).read_text(encoding="utf-8"))
        restarts = [Restart(**each) for each in saved]
        recent = [
            each for each in restarts if each.is_down or now - datetime.fromisoformat(each.last_at) < RECENT
        ]
    except (OSError, ValueError, TypeError):
        return []
    return sorted(recent, key=lambda restart: restart.last_at, reverse=True)

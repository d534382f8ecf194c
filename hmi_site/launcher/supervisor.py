"""Starting again the processes of the product that end by themselves."""

import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console

from hmi_site.embedded.process import Child, ChildError, describe_exit

Ready = Callable[[], bool]


Make = Callable[[], tuple[Child, Ready]]


POLL_S = 0.2


READY_WITHIN_S = 300.0


SECOND_WAIT_S = 1.0
"""The first restart is at once; from the third on the wait doubles."""


MAX_DEATHS = 5


WITHIN_S = 60.0
"""A process that ends so often within so many seconds is given up, and the product with it."""


class Service:
    """One process of the product: how it is started, as which child it runs, and when it ended before."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self.child, self.ready = make()
        self.deaths: list[float] = []
        self.restart_at: float | None = None
        self.starting_since: float | None = None

    @property
    def name(self) -> str:
        """As the person at the terminal knows it."""
        return self.child.name

    @property
    def is_up(self) -> bool:
        """Whether it has been started, again where need be, and was ready."""
        return self.restart_at is None and self.starting_since is None

    def renew(self) -> None:
        """Make another child in place of the one that ended; it has not been started."""
        self.child, self.ready = self._make()


class Supervisor:
    """Looks after services that have started: one that ends is started again at once, then after 1, 2 and 4
    seconds, until it has ended MAX_DEATHS times within WITHIN_S.

    `begin` does so in a thread of its own; `failure` is then why it has given up, of which `on_failure` is
    told. `stop` ends the restarts, and `release` the thread: the kernel ends what a thread has started
    together with that thread, so first the children must have ended.
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
        self._released = threading.Event()
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)

    @property
    def all_up(self) -> bool:
        """Whether no service is being started again."""
        return all(service.is_up for service in self._services)

    def begin(self) -> None:
        """Look after the services until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """From now on nothing is started again; what has been started may be stopped."""
        self._stopping.set()
        with self._starting:
            pass  # whoever was being started is known by its process id now

    def release(self) -> None:
        """All children have ended."""
        self._released.set()
        if self._thread.is_alive():
            self._thread.join()

    def step(self) -> None:
        """Look at every service once. Raises ChildError for one that has ended too often."""
        for service in self._services:
            self._look_at(service)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(POLL_S):
                self.step()
        except Exception as error:  # noqa: BLE001 - without a supervisor the product must not go on
            self.failure = error
            self._on_failure()
        self._released.wait()

    def _look_at(self, service: Service) -> None:
        now = self._clock()
        if service.restart_at is not None:
            if now >= service.restart_at:
                self._start(service)
        elif (code := service.child.exit_code()) is not None:
            self._ended(service, describe_exit(code))
        elif service.starting_since is not None:
            if service.ready():
                self._say(f"[green]✓[/green] {_named(service)}: ready again in {self._took(service):.1f} s")
                service.starting_since = None
            elif now - service.starting_since > READY_WITHIN_S:
                self._ended(service, f"was not ready within {READY_WITHIN_S:.0f} s")

    def _start(self, service: Service) -> None:
        service.restart_at, service.starting_since = None, self._clock()
        try:
            service.renew()
            with self._starting:
                if not self._stopping.is_set():
                    service.child.start()
        except (ChildError, OSError) as error:
            self._ended(service, f"could not be started: {error}")

    def _ended(self, service: Service, how: str) -> None:
        """End what it had started, which may hold its port or its files, and have it wait for its restart."""
        service.child.kill_group()
        now = self._clock()
        service.deaths = [*(at for at in service.deaths if now - at < WITHIN_S), now]
        count = len(service.deaths)
        if count >= MAX_DEATHS:
            raise ChildError(
                f"{service.name} has ended {count} times within a minute; the last time it {how}.\n"
                f"{service.child.last_lines()}"
            )
        wait_s = 0.0 if count == 1 else SECOND_WAIT_S * 2 ** (count - 2)
        service.restart_at, service.starting_since = now + wait_s, None
        self._record.add(service.name, how)
        when = f"in {wait_s:g} s" if wait_s else "now"
        self._say(f"[yellow]![/yellow] {_named(service)} {how}; it is started again {when}.")

    def _took(self, service: Service) -> float:
        return self._clock() - (service.starting_since or 0.0)

    def _say(self, told: str) -> None:
        self._console.print(f"  {datetime.now().astimezone():%H:%M:%S} {told}", highlight=False)


def wake_main_thread() -> None:
    """Have the main thread look what has happened, whatever it waits for."""
    ident = threading.main_thread().ident
    if ident is not None:
        signal.pthread_kill(ident, signal.SIGCHLD)


def _named(service: Service) -> str:
    return service.name[0].upper() + service.name[1:]


FILE_NAME = "restarts.json"


TOLD_FOR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Restart:
    """One process that ended by itself: how often since the product was started, and when and how the last
    time."""

    name: str
    times: int
    last_at: str
    how: str


class RestartRecord:
    """Of one run of the launcher, which alone writes it."""

    def __init__(self, file: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._file = file
        self._clock = clock
        self._found: dict[str, Restart] = {}

    def add(self, name: str, how: str) -> None:
        """Write down that it has ended and is started again. A disk that is full is no reason not to."""
        times = self._found[name].times + 1 if name in self._found else 1
        self._found[name] = Restart(name, times, self._clock().isoformat(), how)
        partial = self._file.with_suffix(".partial")
        try:
            partial.write_text(json.dumps([asdict(one) for one in self._found.values()]), encoding="utf-8")
            partial.replace(self._file)
        except OSError:
            partial.unlink(missing_ok=True)


def recent_restarts(folder: Path, now: datetime) -> list[Restart]:
    """Those of the last day, the newest first; none where no launcher has written any."""
    try:
        told = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        found = [Restart(**one) for one in told]
        recent = [one for one in found if now - datetime.fromisoformat(one.last_at) < TOLD_FOR]
    except (OSError, ValueError, TypeError):
        return []
    return sorted(recent, key=lambda one: one.last_at, reverse=True)

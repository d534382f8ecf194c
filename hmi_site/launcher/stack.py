"""Start and stop all processes: `with Stack(console) as stack: ... stack.url ...`."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

import psycopg
import redis
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection, connections
from rich.console import Console
from rich.markup import escape

from hmi_site.embedded.parent_death import SUPERVISOR_PID, die_with_parent
from hmi_site.embedded.postgres import PORT, Postgres
from hmi_site.embedded.process import Child, ChildError
from hmi_site.embedded.runtime_dir import (
    RuntimeDirError,
    close_to_others,
    create_private_folder,
    remove_stale_files,
)
from hmi_site.embedded.valkey import Valkey
from hmi_site.health import started_workers
from hmi_site.launcher import children, migrations
from hmi_site.launcher.interrupts import ChildExited, Interrupts, StopRequested, raise_on_signals
from hmi_site.launcher.lock import HomeLock
from hmi_site.launcher.supervisor import (
    READY_TIMEOUT_S,
    RESTARTS_FILE,
    Service,
    Supervisor,
    wake_main_thread,
)
from hmi_site.launcher.web_server import choose_port
from hmi_site.server_urls import EMBEDDED_ADMIN, EMBEDDED_DATABASE, EMBEDDED_ROLE, VALKEY_SOCKET
from versiontree.tree.serving_manifest import manifest_publish

POLL_S = 0.03
CHECK_INTERVAL_S = 5.0
SHOW_INTERVAL_S = 1.0
EXIT_SIGNAL_DELAY_S = 1.0


class Stack:
    """All processes of the product. PostgreSQL and Valkey are ready before the others start.

    Those start together, in three stages: the inference worker and the Celery workers, beat, and the web
    server. Leaving the block stops all stages in reverse order. If a child exits before all are ready,
    ChildError has its name and the end of its log, except the inference worker when it lacks its device: the
    site says so and starts. Later exits lead to restarts, however many (see `Supervisor`).
    Ctrl-C and SIGTERM leave the block without an error. Use a Stack once, in the main thread.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.url = ""
        self._stages: list[list[Service]] = []
        self._supervisor: Supervisor | None = None
        self._sockets: list[Path] = []
        self._resources = contextlib.ExitStack()
        self._interrupts = Interrupts()

    def __enter__(self) -> Self:
        self._follow_parent()
        self._resources.enter_context(raise_on_signals(self._interrupts, child_exited=self._child_exited))
        try:
            self._start()
            self._supervise()
        except BaseException as error:  # noqa: BLE001 - all children are stopped in any case
            self._interrupts.armed = False
            failure = self._child_failure(error) or _as_child_error(error)
            self._stop()
            if isinstance(error, StopRequested):
                raise SystemExit(0) from None
            raise failure from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._interrupts.armed = False
        failure = None if error is None else self._child_failure(error)
        self._stop()
        if failure is not None:
            raise failure from None
        return isinstance(error, StopRequested)

    def wait(self, show: Callable[[], bool] | None = None) -> NoReturn:
        """Sleep until the block is interrupted; rotate logs. Raises ChildError if a socket was removed.

        ``show`` is called every second until it returns False.
        """
        missing: set[Path] = set()
        while True:
            missing = self._check(missing)
            checked = time.monotonic()
            while (left := checked + CHECK_INTERVAL_S - time.monotonic()) > 0:
                show = show if show is not None and show() else None
                time.sleep(SHOW_INTERVAL_S if show else left)

    def _check(self, missing: set[Path]) -> set[Path]:
        """Check the processes and rotate their logs. Returns the missing sockets, of which none may have been
        missing before."""
        self._check_failure()
        for service in self._services():
            service.child.rotate_log()
        now = self._missing_sockets()
        for socket in now & missing:
            raise ChildError(
                f"{socket} has been removed, so nothing can connect there any more.\n"
                "Start again; if something cleans that folder, set HMI_RUNTIME_DIR to another."
            )
        return now

    def _missing_sockets(self) -> set[Path]:
        """The sockets that do not exist. Empty during a restart: a server that exits removes its socket."""
        if self._supervisor is None or not self._supervisor.all_up:
            return set()
        return {socket for socket in self._sockets if not socket.exists()}

    def _check_failure(self) -> None:
        """Raise the error that ended the supervisor."""
        if self._supervisor is not None and self._supervisor.failure is not None:
            raise self._supervisor.failure

    def _supervise(self) -> None:
        """Restart children that exit from now on."""
        file = settings.HMI_RUNTIME_DIR / RESTARTS_FILE
        self._supervisor = Supervisor(self._services(), self.console, file, on_failure=wake_main_thread)
        self._supervisor.start()

    def _start(self) -> None:
        try:
            create_private_folder(settings.HMI_RUNTIME_DIR)
        except RuntimeDirError as error:
            raise ChildError(str(error)) from None
        lock = self._resources.enter_context(HomeLock(settings.HMI_HOME))
        self._resources.callback(remove_stale_files, settings.HMI_RUNTIME_DIR)
        for folder in (
            *(settings.HMI_HOME, settings.HMI_ARTIFACT_ROOT, settings.HMI_UPLOAD_ROOT),
            *(settings.HMI_EXPORT_ROOT, settings.HMI_LOG_ROOT),
        ):
            if not close_to_others(folder):
                self.console.print(f"[yellow]![/yellow] Other users can enter {folder}; run chmod 700 on it.")
        self._start_postgres()
        self._start_valkey()
        # In an empty database there is nothing that workers could do wrong before its tables are there.
        early = self._launch_workers() if migrations.database_is_empty() else []
        applied = migrations.apply(self.console)
        self._print_state("Database", f"{applied} migrations applied" if applied else "up to date")
        manifest_publish()
        workers = early or self._launch_workers()
        self._await_all(*workers, *self._launch(Service(children.beat)), *self._launch_web())
        self._print_worker_errors()
        lock.write_url(self.url)
        connections.close_all()

    def _launch_workers(self) -> Sequence[Service]:
        return self._launch(
            Service(children.inference_worker, is_optional=True),
            Service(children.training_worker),
            Service(children.quick_worker),
            Service(children.short_worker),
            Service(children.long_worker),
        )

    def _start_postgres(self) -> None:
        if not settings.HMI_EMBEDDED_POSTGRES:
            _check_external_database()
            self._print_state("PostgreSQL", "external (DATABASE_URL)")
            return
        server = Postgres(
            data=settings.HMI_HOME / "postgres",
            runtime=settings.HMI_RUNTIME_DIR,
            log=settings.HMI_LOG_ROOT / "postgres.log",
            user=EMBEDDED_ADMIN,
            binaries=settings.HMI_POSTGRES_BIN,
        )
        with self.console.status("Preparing PostgreSQL"):
            service = Service(lambda: (server.prepare(), server.ready))
        self._start_stage(service)
        self._sockets.append(settings.HMI_RUNTIME_DIR / f".s.PGSQL.{PORT}")
        server.create_database(EMBEDDED_DATABASE, owner=EMBEDDED_ROLE)

    def _start_valkey(self) -> None:
        if not settings.HMI_EMBEDDED_REDIS:
            _check_external_redis()
            self._print_state("Redis", "external (REDIS_URL)")
            return
        server = Valkey(
            data=settings.HMI_HOME / "valkey",
            runtime=settings.HMI_RUNTIME_DIR,
            log=settings.HMI_LOG_ROOT / "valkey.log",
            binary=settings.HMI_REDIS_BIN,
        )
        self._start_stage(Service(lambda: (server.prepare(), server.ready)))
        self._sockets.append(settings.HMI_RUNTIME_DIR / VALKEY_SOCKET)

    def _launch_web(self) -> Sequence[Service]:
        port = choose_port(settings.HMI_HOST, settings.HMI_PORT)
        self._resources.callback(port.listener.close)
        for taken in port.taken:
            self.console.print(f"Port {taken} is in use.")
        if port.taken:
            self.console.print(f"Using port {port.number} instead.")
        shown = f"[{settings.HMI_HOST}]" if ":" in settings.HMI_HOST else settings.HMI_HOST
        self.url = f"http://{'localhost' if shown in {'0.0.0.0', '[::]'} else shown}:{port.number}"  # noqa: S104
        return self._launch(Service(lambda: children.web(port)))

    def _start_stage(self, *stage: Service) -> None:
        """Start services together and wait until all are ready."""
        self._await_all(*self._launch(*stage))

    def _launch(self, *stage: Service) -> Sequence[Service]:
        """Start services together, which are stopped together."""
        self._stages.append([*stage])
        for service in stage:
            with self._interrupts.deferred():  # until the process id is saved
                service.child.start()
            service.launched_at = time.monotonic()
        return stage

    def _await_all(self, *services: Service) -> None:
        """Wait until all these services are ready."""
        until = time.monotonic() + READY_TIMEOUT_S
        waiting = [*services]
        while waiting:
            with self.console.status(f"Starting {', '.join(service.name for service in waiting)}"):
                done = self._await_any(waiting, until=until)
            for service in done:
                waiting.remove(service)
                if service.is_up:
                    self._print_state(
                        service.name, f"ready in {time.monotonic() - service.launched_at:.1f} s"
                    )
                else:
                    self._print_state(service.name, "not ready; the others start", mark="[red]✗[/red]")

    def _await_any(self, waiting: list[Service], *, until: float) -> list[Service]:
        """Those that are ready, and those that the supervisor goes on with, which are not up."""
        done: list[Service] = []
        while not done:
            self._check_children()
            is_late = time.monotonic() > until
            for service in waiting:
                if service.ready():
                    done.append(service)
                elif service.can_start_later(is_late=is_late):
                    service.starting_since = time.monotonic()
                    done.append(service)
                elif is_late:
                    raise ChildError(
                        f"{service.name} is not ready after {READY_TIMEOUT_S:.0f} s.\n"
                        f"{service.child.log_tail()}"
                    )
            if not done:
                time.sleep(POLL_S)
        return done

    def _services(self) -> list[Service]:
        return [service for stage in self._stages for service in stage]

    def _exited(self) -> list[Child]:
        """The children that have exited, except those that can start later."""
        services = [one for one in self._services() if one.child.exit_code() is not None]
        return [service.child for service in services if not service.can_start_later()]

    def _check_children(self) -> None:
        """Raise ChildError if one has exited."""
        for child in self._exited():
            child.check_alive()

    def _print_state(self, name: str, state: str, *, mark: str = "[green]✓[/green]") -> None:
        self.console.print(f"  {mark} {name[0].upper()}{name[1:]}: {state}", highlight=False)

    def _print_worker_errors(self) -> None:
        """Print what the inference workers report, such as a GPU that they cannot use."""
        for worker in started_workers():
            if worker.last_error:
                self._print_state(worker.name, escape(worker.last_error), mark="[yellow]![/yellow]")

    def _child_exited(self) -> bool:
        """Whether a child has exited that is not restarted."""
        if self._supervisor is not None:
            return self._supervisor.failure is not None
        return bool(self._exited())

    def _child_failure(self, error: BaseException) -> Exception | None:
        """The exit of a child, if it caused `error`: a lost connection is noticed before the exit."""
        if isinstance(error, ChildError) or not isinstance(error, (Exception, ChildExited)):
            return None
        if self._supervisor is not None:
            return self._supervisor.failure
        deadline = time.monotonic() + EXIT_SIGNAL_DELAY_S
        while not self._child_exited() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        try:
            self._check_children()
        except ChildError as failure:
            return failure
        return None

    def _stop(self) -> None:
        connections.close_all()
        if self._supervisor is not None:
            self._supervisor.stop()
        for stage in reversed(self._stages):
            with self.console.status(f"Stopping {', '.join(service.name for service in stage)}"):
                for service in stage:
                    service.child.terminate()
                for service in stage:
                    service.child.wait_or_kill()
        if self._supervisor is not None:
            self._supervisor.join()
        self._stages.clear()
        self._resources.close()

    def _follow_parent(self) -> None:
        """Under `make`, stop when `make` is killed."""
        if os.environ.get(SUPERVISOR_PID) == str(os.getppid()):
            die_with_parent(by=signal.SIGTERM)


def _as_child_error(error: BaseException) -> BaseException:
    """A ChildError for errors of servers and disks. Other errors are returned unchanged."""
    if isinstance(error, (DatabaseError, psycopg.Error, redis.RedisError, OSError)):
        return ChildError(f"HMI could not start: {error}\n(logs: {settings.HMI_LOG_ROOT})")
    return error


def _check_external_database() -> None:
    try:
        connection.ensure_connection()
    except (OperationalError, psycopg.OperationalError) as error:
        raise ChildError(f"DATABASE_URL cannot be used: {error}") from None


def _check_external_redis() -> None:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=3, socket_connect_timeout=3) as client:
            client.ping()
    except redis.RedisError as error:
        raise ChildError(f"REDIS_URL cannot be used: {error}") from None

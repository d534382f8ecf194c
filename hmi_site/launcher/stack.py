"""Everything the product needs, running: `with Stack(console) as stack: ... stack.url ...`."""

import contextlib
import os
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
import redis
from django.conf import settings
from django.db import DatabaseError, OperationalError, connection, connections
from rich.console import Console

from hmi_site.embedded.lifeline import SUPERVISED, die_with_parent
from hmi_site.embedded.postgres import PORT, Postgres
from hmi_site.embedded.process import Child, ChildError
from hmi_site.embedded.runtime_dir import RuntimeDirError, make_private, remove_leftovers
from hmi_site.embedded.valkey import Valkey
from hmi_site.launcher import children, migrations
from hmi_site.launcher.interrupts import ChildEnded, Interrupts, Stopped, raising
from hmi_site.launcher.lock import HomeLock
from hmi_site.launcher.supervisor import FILE_NAME as RESTARTS
from hmi_site.launcher.supervisor import READY_WITHIN_S, Service, Supervisor, wake_main_thread
from hmi_site.launcher.web_server import choose_port
from hmi_site.server_urls import EMBEDDED_ADMIN, EMBEDDED_DATABASE, EMBEDDED_ROLE, VALKEY_SOCKET
from versiontree.tree.serving_manifest import manifest_publish

POLL_S = 0.03
CHECK_EVERY_S = 5.0
DEATH_SHOWS_WITHIN_S = 1.0


class Stack:
    """All processes of the product, in four waves, each ready before the next starts.

    PostgreSQL; Valkey; the inference worker, the Celery workers and beat; the web server. Leaving the block
    stops them in reverse. A child that ends before all are ready raises ChildError, naming it, with the end
    of its log; one that ends later is started again, see `Supervisor`. Two things interrupt the block: one
    that ends again and again raises ChildError out of the `with`; Ctrl-C and SIGTERM leave it quietly. Use it
    once, in the main thread.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.url = ""
        self._waves: list[list[Service]] = []
        self._supervisor: Supervisor | None = None
        self._sockets: list[Path] = []
        self._resources = contextlib.ExitStack()
        self._interrupts = Interrupts()

    def __enter__(self) -> Self:
        self._follow_parent()
        self._resources.enter_context(raising(self._interrupts, child_ended=self._child_ended))
        try:
            self._start()
            self._supervise()
        except BaseException as error:  # noqa: BLE001 - whatever it is, nothing stays behind
            self._interrupts.armed = False
            explained = self._explained(error) or _as_child_error(error)
            self._stop()
            if isinstance(error, Stopped):
                raise SystemExit(0) from None
            raise explained from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._interrupts.armed = False
        explained = None if error is None else self._explained(error)
        self._stop()
        if explained is not None:
            raise explained from None
        return isinstance(error, Stopped)

    def wait(self) -> None:
        """Sleep until something interrupts the block; logs are kept from filling the disk. Raises ChildError
        when nobody can reach a child any more."""
        missing: set[Path] = set()
        while True:
            self._check_failure()
            for child in self._children():
                child.trim_log()
            before, missing = missing, self._missing_sockets()
            for socket in before & missing:
                raise ChildError(
                    f"{socket} has been removed, so nothing can connect there any more.\n"
                    "Start again; if something cleans that folder, set HMI_RUNTIME_DIR to another."
                )
            time.sleep(CHECK_EVERY_S)

    def _missing_sockets(self) -> set[Path]:
        """None while a server is being started again. One that ends removes its socket shortly before."""
        if self._supervisor is None or not self._supervisor.all_up:
            return set()
        return {socket for socket in self._sockets if not socket.exists()}

    def _check_failure(self) -> None:
        """Raise what the supervisor has given up for."""
        if self._supervisor is not None and self._supervisor.failure is not None:
            raise self._supervisor.failure

    def _supervise(self) -> None:
        """From now on a child that ends is started again."""
        services = [service for wave in self._waves for service in wave]
        file = settings.HMI_RUNTIME_DIR / RESTARTS
        self._supervisor = Supervisor(services, self.console, file, on_failure=wake_main_thread)
        self._supervisor.begin()

    def _start(self) -> None:
        try:
            make_private(settings.HMI_RUNTIME_DIR)
        except RuntimeDirError as error:
            raise ChildError(str(error)) from None
        lock = self._resources.enter_context(HomeLock(settings.HMI_HOME))
        self._resources.callback(remove_leftovers, settings.HMI_RUNTIME_DIR)
        for folder in (settings.HMI_ARTIFACT_ROOT, settings.HMI_UPLOAD_ROOT, settings.HMI_LOG_ROOT):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._start_postgres()
        self._start_valkey()
        applied = migrations.apply(self.console)
        self._say("Database", f"{applied} migrations applied" if applied else "up to date")
        manifest_publish()
        self._start_wave(
            Service(children.inference_worker),
            Service(children.training_worker),
            Service(children.default_worker),
            Service(children.uploads_worker),
            Service(children.webhook_worker),
            Service(children.batch_worker),
            Service(children.beat),
        )
        self._start_web(lock)
        connections.close_all()

    def _start_postgres(self) -> None:
        if not settings.HMI_EMBEDDED_POSTGRES:
            _check_external_database()
            self._say("PostgreSQL", "external (DATABASE_URL)")
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
        self._start_wave(service)
        self._sockets.append(settings.HMI_RUNTIME_DIR / f".s.PGSQL.{PORT}")
        server.create_database(EMBEDDED_DATABASE, owner=EMBEDDED_ROLE)

    def _start_valkey(self) -> None:
        if not settings.HMI_EMBEDDED_REDIS:
            _check_external_redis()
            self._say("Redis", "external (REDIS_URL)")
            return
        server = Valkey(
            data=settings.HMI_HOME / "valkey",
            runtime=settings.HMI_RUNTIME_DIR,
            log=settings.HMI_LOG_ROOT / "valkey.log",
            binary=settings.HMI_REDIS_BIN,
        )
        self._start_wave(Service(lambda: (server.prepare(), server.ready)))
        self._sockets.append(settings.HMI_RUNTIME_DIR / VALKEY_SOCKET)

    def _start_web(self, lock: HomeLock) -> None:
        port = choose_port(settings.HMI_HOST, settings.HMI_PORT)
        self._resources.callback(port.listener.close)
        for taken in port.taken:
            self.console.print(f"Port {taken} is taken.")
        if port.taken:
            self.console.print(f"Using port {port.number} instead.")
        self._start_wave(Service(lambda: children.web(port)))
        shown = f"[{settings.HMI_HOST}]" if ":" in settings.HMI_HOST else settings.HMI_HOST
        self.url = f"http://{'localhost' if shown in {'0.0.0.0', '[::]'} else shown}:{port.number}"  # noqa: S104
        lock.tell(url=self.url)

    def _start_wave(self, *wave: Service) -> None:
        """Start these together and wait until each is ready; what depends on them comes in the next wave."""
        began = time.monotonic()
        self._waves.append([*wave])
        for service in wave:
            with self._interrupts.held():  # else one that has started may not be known by its process id
                service.child.start()
        waiting = [*wave]
        while waiting:
            with self.console.status(f"Starting {', '.join(service.name for service in waiting)}"):
                done = self._await_any(waiting, until=began + READY_WITHIN_S)
            for service in done:
                waiting.remove(service)
                self._say(service.name, f"ready in {time.monotonic() - began:.1f} s")

    def _await_any(self, waiting: list[Service], *, until: float) -> list[Service]:
        while not (done := [service for service in waiting if service.ready()]):
            for service in waiting:
                service.child.check_alive()
                if time.monotonic() > until:
                    raise ChildError(
                        f"{service.name} is not ready after {READY_WITHIN_S:.0f} s.\n"
                        f"{service.child.last_lines()}"
                    )
            time.sleep(POLL_S)
        return done

    def _children(self) -> list[Child]:
        return [service.child for wave in self._waves for service in wave]

    def _say(self, name: str, state: str) -> None:
        self.console.print(f"  [green]✓[/green] {name[0].upper()}{name[1:]}: {state}", highlight=False)

    def _child_ended(self) -> bool:
        """Whether one has ended that is not started again."""
        if self._supervisor is not None:
            return self._supervisor.failure is not None
        return any(child.exit_code() is not None for child in self._children())

    def _explained(self, error: BaseException) -> Exception | None:
        """The end of a child, where that is what `error` comes from; a lost connection shows first."""
        if isinstance(error, ChildError) or not isinstance(error, (Exception, ChildEnded)):
            return None
        if self._supervisor is not None:
            return self._supervisor.failure
        deadline = time.monotonic() + DEATH_SHOWS_WITHIN_S
        while not self._child_ended() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        try:
            for child in self._children():
                child.check_alive()
        except ChildError as ended:
            return ended
        return None

    def _stop(self) -> None:
        connections.close_all()
        if self._supervisor is not None:
            self._supervisor.stop()
        for wave in reversed(self._waves):
            with self.console.status(f"Stopping {', '.join(service.name for service in wave)}"):
                for service in wave:
                    service.child.ask_to_stop()
                for service in wave:
                    service.child.await_end()
        if self._supervisor is not None:
            self._supervisor.release()
        self._waves.clear()
        self._resources.close()

    def _follow_parent(self) -> None:
        """Under `make`, whoever kills `make` means us."""
        if os.environ.get(SUPERVISED) == str(os.getppid()):
            die_with_parent(by=signal.SIGTERM)


def _as_child_error(error: BaseException) -> BaseException:
    """A server or a disk that refuses, in words for the person at the terminal; our own bugs as they are."""
    if isinstance(error, (DatabaseError, psycopg.Error, redis.RedisError, OSError)):
        return ChildError(f"The start failed: {error}\n(logs: {settings.HMI_LOG_ROOT})")
    return error


def _check_external_database() -> None:
    try:
        connection.ensure_connection()
    except (OperationalError, psycopg.OperationalError) as error:
        raise ChildError(f"The database of DATABASE_URL cannot be used: {error}") from None


def _check_external_redis() -> None:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=3, socket_connect_timeout=3) as client:
            client.ping()
    except redis.RedisError as error:
        raise ChildError(f"The server of REDIS_URL cannot be used: {error}") from None

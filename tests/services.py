"""Real PostgreSQL and Valkey for a test run, started by the product's own code and only when a test asks."""

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from django.conf import settings

from hmi_site.embedded.postgres import Postgres
from hmi_site.embedded.process import Child
from hmi_site.embedded.valkey import Valkey
from hmi_site.server_urls import EMBEDDED_ADMIN, embedded_redis_url

START_TIMEOUT_S = 600.0


@contextlib.contextmanager
def running(child: Child, ready: Callable[[], bool]) -> Iterator[None]:
    """Start a server, wait until it answers, stop it at the end."""
    try:
        start(child, ready)
        yield
    finally:
        child.stop()


def start(child: Child, ready: Callable[[], bool]) -> None:
    """Returns once it answers."""
    child.start()
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready():
        child.check_alive()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{child.name} is not ready:\n{child.log_tail()}")
        time.sleep(0.02)


@contextlib.contextmanager
def reserved_port(host: str) -> Iterator[int]:
    """A port that nobody else is given meanwhile; a server that reuses addresses can listen on it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, 0))
        yield holder.getsockname()[1]


def kill(child: Child) -> None:
    """As a crash would."""
    assert child.process is not None
    child.process.kill()
    child.process.wait()


class OwnValkey:
    """A Valkey of a test's own that keeps its data: start, kill, start again."""

    def __init__(self, home: Path, *, binary: Path | None) -> None:
        self.url = embedded_redis_url(home / "run")
        self._server = Valkey(
            data=home / "valkey", runtime=home / "run", log=home / "valkey.log", binary=binary
        )
        self._child = self._server.prepare()

    def start(self) -> None:
        """Returns once it answers."""
        start(self._child, self._server.ready)

    def kill(self) -> None:
        """As a crash would."""
        kill(self._child)


def throwaway_postgres(home: Path, *, binaries: Path | None) -> Postgres:
    """A PostgreSQL that forgets: no fsync."""
    return Postgres(
        data=home / "postgres",
        runtime=home / "run",
        log=home / "logs" / "postgres.log",
        user=EMBEDDED_ADMIN,
        binaries=binaries,
        durable=False,
    )


def throwaway_valkey(home: Path, *, binary: Path | None) -> Valkey:
    """A Valkey that forgets: no append-only file."""
    return Valkey(
        data=home / "valkey",
        runtime=home / "run",
        log=home / "logs" / "valkey.log",
        binary=binary,
        durable=False,
    )


def environment_of_services(redis_url: str) -> dict[str, str]:
    """Environment variables that point a process at this run's database, Valkey and folders, as settings are
    now."""
    database = settings.DATABASES["default"]
    return {
        "DJANGO_SETTINGS_MODULE": "hmi_site.settings",
        "DATABASE_URL": f"postgresql:///{database['NAME']}?host={database['HOST']}&user={database['USER']}",
        "REDIS_URL": redis_url,
        "HMI_HOME": str(settings.HMI_HOME),
        "HMI_ARTIFACT_ROOT": str(settings.HMI_ARTIFACT_ROOT),
        "HMI_UPLOAD_ROOT": str(settings.HMI_UPLOAD_ROOT),
        "HMI_SECRET_KEY": settings.SECRET_KEY,
    }

"""Real PostgreSQL and Valkey for a test run, started by the product's own code and only when a test asks."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from django.conf import settings

from hmi_site.embedded.postgres import Postgres
from hmi_site.embedded.process import Child
from hmi_site.embedded.valkey import Valkey
from hmi_site.server_urls import EMBEDDED_ADMIN, embedded_redis_url

START_TIMEOUT_S = 600.0
# A disk of four megabytes that nobody else sees, with the server's folder on it; it goes with the server.
ON_A_SMALL_DISK = 'mount -t tmpfs -o size=4m tmpfs "$0" && cd "$0" && exec "$@"'


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


class Killable:
    """A server that is started by the product's own code."""

    def __init__(self) -> None:
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        assert self._child is not None
        return self._child

    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.exit_code() is None

    def kill(self) -> None:
        """SIGKILL for it and for all that it started."""
        if not self.runs():
            return
        process = psutil.Process(self.child.pid)
        family = [process, *process.children(recursive=True)]
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
        psutil.wait_procs(family)
        assert self.child.process is not None
        self.child.process.wait()

    def stop(self) -> None:
        """In order: a PostgreSQL that is killed leaves shared memory behind."""
        if self._child is not None:
            self._child.stop()


class OwnValkey(Killable):
    """A Valkey that writes what it has accepted to an append-only file under ``home``."""

    def __init__(self, home: Path, *, binary: Path | None, small_disk: bool = False) -> None:
        super().__init__()
        self.url = embedded_redis_url(home / "run")
        self.data = home / "valkey"
        self._small_disk = small_disk
        self._server = Valkey(data=self.data, runtime=home / "run", log=home / "valkey.log", binary=binary)

    def start(self) -> None:
        """Returns once it answers."""
        self._child = self._server.prepare()
        if self._small_disk:
            self._child.command = [*private_mounts(), ON_A_SMALL_DISK, str(self.data), *self._child.command]
        start(self._child, self._server.ready)

    @property
    def disk(self) -> Path:
        """Its folder, as it sees it."""
        return Path(f"/proc/{self.child.pid}/root{self.data}")


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


def private_mounts() -> list[str]:
    """What to put before a shell's script that mounts something."""
    as_root = [] if os.getuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *as_root, "sh", "-c"]

"""Servers that a test may kill and start again, each with data of its own."""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil

from hmi_site.embedded.postgres import Postgres
from hmi_site.embedded.process import Child
from hmi_site.embedded.valkey import Valkey
from hmi_site.launcher import children
from hmi_site.launcher.web_server import Port, choose_port
from hmi_site.server_urls import EMBEDDED_ROLE, embedded_redis_url
from tests.services import start, throwaway_postgres

# A disk of four megabytes that nobody else sees, with the server's folder on it; it goes with the server.
ON_A_SMALL_DISK = 'mount -t tmpfs -o size=4m tmpfs "$0" && cd "$0" && exec "$@"'


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


class OwnPostgres(Killable):
    """A PostgreSQL with its data and its socket under ``home``."""

    def __init__(self, home: Path, *, binaries: Path | None) -> None:
        super().__init__()
        self.host = home / "run"
        self._server: Postgres = throwaway_postgres(home, binaries=binaries)

    def start(self) -> None:
        """Returns once it answers."""
        self._child = self._server.prepare()
        start(self._child, self._server.ready)

    def create_database(self, name: str) -> None:
        """An empty one."""
        self._server.create_database(name, owner=EMBEDDED_ROLE)


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


class Web(Killable):
    """The web server as the launcher starts it, perhaps with another application. While it does not run,
    nobody listens: as where the launcher has gone, too."""

    def __init__(self, port: Port, env: dict[str, str], log: Path, *, application: str = "") -> None:
        super().__init__()
        self.url = f"http://{port.address}:{port.number}"
        self._port = port
        self._env = env
        self._log = log
        self._application = application

    def start(self) -> None:
        """Returns once it answers."""
        if self._port.listener.fileno() < 0:
            self._port = choose_port(self._port.address, self._port.number)
            assert not self._port.taken
        self._child, ready = self.prepared()
        start(self._child, ready)

    def kill(self) -> None:
        super().kill()
        self._port.listener.close()

    def stop(self) -> None:
        super().stop()
        self._port.listener.close()

    def prepared(self) -> tuple[Child, Callable[[], bool]]:
        """The process, and what says that it answers."""
        child, ready = children.web(self._port)
        child.env = {**child.env, **self._env}
        if self._application:
            child.command = [*child.command[:-1], self._application]
        child.log = self._log
        return child, ready

    def output(self) -> str:
        """What it has written so far."""
        return self._log.read_text()


def private_mounts() -> list[str]:
    """What to put before a shell's script that mounts something."""
    as_root = [] if os.getuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *as_root, "sh", "-c"]

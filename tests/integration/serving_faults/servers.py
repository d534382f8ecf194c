"""Servers that a test may kill and start again, each with data of its own."""

from collections.abc import Callable
from pathlib import Path

from hmi_site.embedded.postgres import Postgres
from hmi_site.embedded.process import Child
from hmi_site.launcher import children
from hmi_site.launcher.web_server import Port, choose_port
from hmi_site.server_urls import EMBEDDED_ROLE
from tests.services import Killable, start, throwaway_postgres


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

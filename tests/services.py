"""Real PostgreSQL and Valkey for a test run, started by the product's own code and only when a test asks."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hmi_site.embedded.postgres import Postgres
from hmi_site.embedded.process import Child
from hmi_site.embedded.valkey import Valkey

START_TIMEOUT_S = 30.0


@contextlib.contextmanager
def running(child: Child, ready: Callable[[], bool]) -> Iterator[None]:
    """Start a server, wait until it answers, stop it at the end."""
    child.start()
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready():
            child.check_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{child.name} is not ready:\n{child.last_lines()}")
            time.sleep(0.02)
        yield
    finally:
        child.stop()


def throwaway_postgres(home: Path, *, binaries: Path | None) -> Postgres:
    """A PostgreSQL that forgets: no fsync."""
    return Postgres(
        data=home / "postgres",
        runtime=home / "run",
        log=home / "logs" / "postgres.log",
        user="hmi",
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

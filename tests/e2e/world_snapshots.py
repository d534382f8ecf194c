"""A snapshot of the world: built once, restored before each test that uses it. Building takes a second."""

import copy
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from django.db import connection, transaction
from redis import Redis

from inference.queueing.keys import WORKERS
from tests.e2e.world import ArtifactFiles, World, world_build
from tests.flushing.management.commands.flush import OF_MIGRATIONS, USED

SCHEMA = "snapshot"
FOREVER = -1
"""What Redis says of a key that does not end."""
HAVE_TRIGGERS = """
    SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger
    WHERE NOT tgisinternal AND tgrelid::regclass::text = ANY(%s)
"""


@dataclass(frozen=True)
class Snapshot:
    """A world, and copies of its tables (in a schema of their own) and of its keys in Valkey."""

    world: World
    day: date
    tables: tuple[str, ...]
    keys: dict[bytes, bytes]


class WorldSnapshots:
    """Builds a world, stores a snapshot of it, and restores that for each later test."""

    def __init__(self, files: ArtifactFiles, folder: Path) -> None:
        self._files, self._folder = files, folder
        self._snapshot: Snapshot | None = None

    def world(self, redis: Redis, roots: Sequence[Path]) -> World:
        """Return the world, built or restored into empty tables, Valkey and folders. Primary keys stay the
        same. Each day has a world of its own, since usage is counted by the day."""
        if self._snapshot is None or self._snapshot.day != _today():
            self._snapshot = self._build(redis, roots)
        else:
            self._restore(self._snapshot, redis, roots)
        return copy.deepcopy(self._snapshot.world)

    def _build(self, redis: Redis, roots: Sequence[Path]) -> Snapshot:
        day, world = _today(), world_build(self._files)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(USED, [OF_MIGRATIONS])
            tables = tuple(table for (table,) in cursor.fetchall())
            cursor.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
            cursor.execute(f"CREATE SCHEMA {SCHEMA}")
            for table in tables:
                cursor.execute(f"CREATE TABLE {SCHEMA}.{table} AS TABLE {table}")
        for root in roots:
            shutil.rmtree(self._folder / root.name, ignore_errors=True)
            shutil.copytree(root, self._folder / root.name)
        # What ends by itself, as a worker's heartbeat does, is not of the world.
        lasting = [key for key in redis.scan_iter() if redis.ttl(key) == FOREVER and key != WORKERS.encode()]
        keys = {key: value for key in lasting if (value := redis.dump(key))}
        return Snapshot(world, day, tables, keys)

    def _restore(self, snapshot: Snapshot, redis: Redis, roots: Sequence[Path]) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(HAVE_TRIGGERS, [list(snapshot.tables)])
            triggering = [table for (table,) in cursor.fetchall()]
            for table in triggering:  # what they made is among the rows
                cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            for table in snapshot.tables:
                cursor.execute(f"INSERT INTO {table} SELECT * FROM {SCHEMA}.{table}")  # noqa: S608
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for table in triggering:
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        for key, value in snapshot.keys.items():
            redis.restore(key, 0, value, replace=True)  # a web server that ends may still write
        for root in roots:
            shutil.copytree(self._folder / root.name, root, dirs_exist_ok=True)


def _today() -> date:
    return datetime.now(UTC).date()

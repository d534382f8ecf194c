"""A world that is built once and put back before each test that wants one: building it takes a second."""

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

SCHEMA = "kept"
FOREVER = -1
"""What Redis says of a key that does not end."""
HAVE_TRIGGERS = """
    SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger
    WHERE NOT tgisinternal AND tgrelid::regclass::text = ANY(%s)
"""


@dataclass(frozen=True)
class Kept:
    """A world and all that it consists of: tables in a schema of their own, keys of Valkey, and files."""

    world: World
    day: date
    tables: tuple[str, ...]
    keys: dict[bytes, bytes]


class Keeper:
    """Gives out the same world, time and again."""

    def __init__(self, files: ArtifactFiles, folder: Path) -> None:
        self._files, self._folder = files, folder
        self._kept: Kept | None = None

    def world(self, redis: Redis, roots: Sequence[Path]) -> World:
        """The world, where tables, Valkey and these folders are empty. Rows keep their keys. A new day
        gets a new world, since what is used is noted by the day."""
        if self._kept is None or self._kept.day != _today():
            self._kept = self._build(redis, roots)
        else:
            self._put_back(self._kept, redis, roots)
        return copy.deepcopy(self._kept.world)

    def _build(self, redis: Redis, roots: Sequence[Path]) -> Kept:
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
        return Kept(world, day, tables, keys)

    def _put_back(self, kept: Kept, redis: Redis, roots: Sequence[Path]) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(HAVE_TRIGGERS, [list(kept.tables)])
            triggering = [table for (table,) in cursor.fetchall()]
            for table in triggering:  # what they made is among the rows
                cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            for table in kept.tables:
                cursor.execute(f"INSERT INTO {table} SELECT * FROM {SCHEMA}.{table}")  # noqa: S608
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for table in triggering:
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        for key, value in kept.keys.items():
            redis.restore(key, 0, value, replace=True)  # a web server that ends may still write
        for root in roots:
            shutil.copytree(self._folder / root.name, root, dirs_exist_ok=True)


def _today() -> date:
    return datetime.now(UTC).date()

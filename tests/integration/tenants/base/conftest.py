"""Two tenants, one of which has a row of everything, and plain SQL as the application's role."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from django.db import connection, models
from psycopg import sql

from tenants.accounts.models import Tenant
from tests.e2e.world import World, world_build
from tests.integration.tenants.base.rows import fill

AnyModel = type[models.Model]


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests begin in the scope of the platform and enter others."""


@pytest.fixture
def world(db: None, artifact_root: Path, upload_root: Path) -> World:
    """That of the pages, with a row of everything in its tenant acme."""
    made = world_build()
    fill(made)
    return made


@pytest.fixture
def other(world: World) -> Tenant:
    """The tenant that has next to nothing."""
    return Tenant.objects.get(slug="umbra")


class Session:
    """Statements as anybody could send them, without Django's part of the wall: the session has the scope
    that it was told. ``{table}`` and ``{key}`` in them are those of the model ``of``."""

    def __init__(self, raw: psycopg.Connection) -> None:
        self._raw = raw

    def enter(self, scope: str) -> None:
        """From now on."""
        self._raw.execute("SELECT set_config('application_name', %s, false)", [scope])

    def rows(self, statement: LiteralString, *values: Any, of: AnyModel) -> list[Any]:
        """What it returns."""
        return self._do(statement, values, of).fetchall()

    def touched(self, statement: LiteralString, *values: Any, of: AnyModel) -> int:
        """How many rows it changed or deleted; then they are as before."""
        with self._raw.transaction(force_rollback=True):
            return self._do(statement, values, of).rowcount

    def refuses(self, statement: LiteralString, *values: Any, of: AnyModel) -> bool:
        """Whether a policy forbids it."""
        with self._raw.transaction(force_rollback=True):
            try:
                self._do(statement, values, of)
            except psycopg.errors.InsufficientPrivilege as error:
                return "row-level security" in str(error)
        return False

    @contextmanager
    def without_triggers(self, of: AnyModel) -> Iterator[None]:
        """They would refuse much of it themselves; in here it is the policies' turn."""
        with self._raw.transaction(force_rollback=True):
            self._do("ALTER TABLE {table} DISABLE TRIGGER USER", (), of)
            yield

    def _do(self, statement: LiteralString, values: Sequence[Any], of: AnyModel) -> psycopg.Cursor[Any]:
        meta = of._meta
        assert meta.pk is not None
        assert meta.pk.column is not None
        names = {"table": sql.Identifier(meta.db_table), "key": sql.Identifier(meta.pk.column)}
        return self._raw.execute(sql.SQL(statement).format(**names), values)


@pytest.fixture
def session(world: World) -> Session:
    """In the transaction of the test, which sees the world."""
    connection.ensure_connection()
    assert isinstance(connection.connection, psycopg.Connection)
    connection.connection.execute(
        "SET CONSTRAINTS ALL IMMEDIATE"
    )  # tables with checks that wait stay as they are
    return Session(connection.connection)

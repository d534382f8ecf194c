"""A database that followed the product ends as one that is made now."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings

from hmi_site.embedded.postgres import PORT, find_programs
from hmi_site.services import EMBEDDED_ADMIN
from tests.services import environment_of_services

pytestmark = pytest.mark.slow

BETWEEN = ("tenants.0012_usage_sums", "versiontree.0008_publishing_and_pinning")
LAST = ("tenants.0019_kept_verdicts", "versiontree.0014_hplm_description")
"""The last migrations that were squashed, and some on the way there."""
ONE_BY_ONE = """
import sys, django
django.setup()
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
executor = MigrationExecutor(connection)
executor.loader.replace_migrations = False
executor.loader.build_graph()
executor.loader.replacements.clear()
targets = dict(executor.loader.graph.leaf_nodes()) | dict(target.split(".") for target in sys.argv[1:])
executor.migrate(list(targets.items()))
"""
"""Migrates as was done before migrations were squashed; other applications to their last."""
START = """
import django
django.setup()
from rich.console import Console
from hmi_site.launcher.migrations import apply
print(apply(Console(quiet=True)))
"""
"""What the launcher does at each start; says how many migrations it applied."""


@pytest.fixture
def server(postgres: None) -> Iterator[psycopg.Connection]:
    """Where databases are made."""
    with connect("postgres") as connection:
        yield connection


def connect(database: str) -> psycopg.Connection:
    account = settings.DATABASES["default"]
    return psycopg.connect(
        host=account["HOST"], port=PORT, user=account["USER"], dbname=database, autocommit=True
    )


def ran(script: str, *arguments: str, database: str) -> str:
    """What a process of the product says that has this database."""
    account = settings.DATABASES["default"]
    environment = environment_of_services("redis://127.0.0.1:1/0") | {
        "DATABASE_URL": f"postgresql:///{database}?host={account['HOST']}&user={account['USER']}"
    }
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def schema(database: str) -> list[str]:
    """All that `pg_dump` tells of it, thing by thing; how functions are broken into lines is nobody's
    concern."""
    program: Path = find_programs(settings.HMI_POSTGRES_BIN) / "pg_dump"
    account = ("--host", settings.DATABASES["default"]["HOST"], "--username", EMBEDDED_ADMIN)
    dump = subprocess.check_output([program, *account, "--schema-only", database], text=True)
    # Some have a first and a last line with a key of their own.
    lines = [line for line in dump.splitlines() if not line.startswith(("\\restrict", "\\unrestrict"))]
    return " ".join(" ".join(lines).split()).split(" -- Name: ")


def recorded(database: str) -> set[tuple[str, str]]:
    """The migrations that it says were applied to it."""
    with connect(database) as connection:
        return set(connection.execute("SELECT app, name FROM django_migrations").fetchall())


def test_from_wherever_a_database_stands_it_ends_as_a_new_one(server: psycopg.Connection) -> None:
    for name in ("hmi_new", "hmi_old"):
        server.execute(f"CREATE DATABASE {name}")
    assert int(ran(START, database="hmi_new")) > 40
    new = schema("hmi_new")
    assert len(new) > 500
    ran(ONE_BY_ONE, *BETWEEN, database="hmi_old")
    server.execute("CREATE DATABASE hmi_between TEMPLATE hmi_old")
    ran(ONE_BY_ONE, *LAST, database="hmi_old")
    assert int(ran(START, database="hmi_between")) > 10
    assert schema("hmi_between") == new
    ran(START, database="hmi_old")
    assert schema("hmi_old") == new
    assert recorded("hmi_old") == recorded("hmi_between") == recorded("hmi_new")

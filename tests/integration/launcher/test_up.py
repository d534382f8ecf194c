"""`manage.py up`, as somebody at a terminal meets it: started, stopped, killed, and started again."""

import signal
import time

import psycopg
import pytest
from django.conf import settings
from django.db import connections

from hmi_site.embedded.runtime_dir import runtime_dir
from tests.integration.launcher.conftest import NewSite
from tests.integration.launcher.site import all_gone


def test_however_it_ends_nothing_is_left_and_the_next_start_keeps_the_data_and_makes_none(
    new_site: NewSite,
) -> None:
    """One home, and starts of it one after the other: ended by Ctrl-C, by SIGKILL, and with `make`."""
    first = new_site().start().wait_until_ready()
    assert first.get("/health/ready").json()["status"] == "ready"
    assert "migrations applied" in first.output
    key = (first.home / "secret_key").read_text()
    processes = first.processes()
    assert first.signal(signal.SIGINT) == 0
    assert all_gone(processes) == []
    assert "Stopped." in first.output
    assert not runtime_dir(first.home).exists()

    second = new_site().start().wait_until_ready()
    assert "Database: up to date" in second.output
    assert "migrations applied" not in second.output
    assert (second.home / "secret_key").read_text() == key
    processes = second.processes()
    assert second.signal(signal.SIGKILL) == -signal.SIGKILL
    again = new_site().start("sh", "-c", 'HMI_SUPERVISED=$$ "$@"; exit $?', "make")
    assert all_gone(processes) == []
    assert again.wait_until_ready().get("/health/ready").status_code == 200

    processes = again.processes()
    again.signal(signal.SIGKILL)
    assert all_gone(processes, within_s=60) == []
    assert "Stopped." in again.output


def test_a_launcher_killed_while_it_starts_leaves_nothing(new_site: NewSite) -> None:
    """Each start goes on from what the killed one before it has left."""
    for moment in (0.9, 2.4, 4.4):
        site = new_site().start()
        time.sleep(moment)
        processes = site.processes()
        site.signal(signal.SIGKILL)
        assert all_gone(processes) == []


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("HMI_DTYPE", "int8", "HMI_DTYPE is 'int8'"),
        ("HMI_BATCH_ROWS", "0", "HMI_BATCH_ROWS='0'"),
        (
            "DATABASE_URL",
            "postgresql://nobody@127.0.0.1:1/hmi",
            "DATABASE_URL cannot be used",
        ),
    ],
)
def test_what_cannot_work_is_said_before_anything_starts(
    new_site: NewSite, name: str, value: str, reason: str
) -> None:
    site = new_site(env={name: value}).start()
    assert site.exit_code() == 1
    assert reason in site.output
    assert "Traceback" not in site.output
    assert not (site.home / "postgres").exists()


def test_external_servers_are_used_and_a_process_that_cannot_start_is_named_at_once(
    new_site: NewSite, postgres: None, redis_url: str
) -> None:
    host = settings.DATABASES["default"]["HOST"]
    role = settings.DATABASES["default"]["USER"]
    connections.close_all()
    with psycopg.connect(host=host, port=5432, user=role, dbname="postgres", autocommit=True) as client:
        name = f"test_{settings.DATABASES['default']['NAME'].removeprefix('test_')}"
        client.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        client.execute(f'CREATE DATABASE outside TEMPLATE "{name}"')  # migrating it would take half a minute
    outside = {"DATABASE_URL": f"postgresql:///outside?host={host}&user={role}", "REDIS_URL": redis_url}
    site = new_site(env=outside).start().wait_until_ready()
    assert site.get("/health/ready").status_code == 200
    assert "PostgreSQL: external" in site.output
    assert "Redis: external" in site.output
    assert "Database: up to date" in site.output
    assert not (site.home / "postgres").exists()
    assert not (site.home / "valkey").exists()
    processes = site.processes()
    assert site.signal(signal.SIGTERM) == 0
    assert all_gone(processes) == []

    broken = new_site(env={**outside, "HMI_DEVICE": "cuda:99"}).start()
    assert broken.exit_code() == 1
    assert "nference worker ended with exit code 2" in broken.output
    assert "'cuda:99' does not exist" in broken.output
    assert "Traceback" not in broken.output

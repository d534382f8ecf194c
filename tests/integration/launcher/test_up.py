"""`manage.py up`, as somebody at a terminal meets it."""

import signal
import socket
import stat
import time

import httpx
import psycopg
import pytest
from django.conf import settings

from hmi_site.embedded.runtime_dir import runtime_dir
from tests.integration.launcher.conftest import NewSite, free_port
from tests.integration.launcher.site import all_gone

pytestmark = pytest.mark.slow
QUICK_S = 30.0


def test_it_serves_until_ctrl_c_and_then_leaves_nothing(new_site: NewSite) -> None:
    site = new_site().start().wait_until_ready()
    assert site.get("/health/ready").json()["status"] == "ready"
    processes = site.processes()

    assert site.signal(signal.SIGINT) == 0
    assert all_gone(processes) == []
    assert "Stopped." in site.output
    assert not runtime_dir(site.home).exists()


def test_a_second_start_keeps_the_data_and_takes_seconds(new_site: NewSite) -> None:
    first = new_site().start().wait_until_ready()
    assert "migrations applied" in first.output
    key = (first.home / "secret_key").read_text()
    first.signal(signal.SIGTERM)

    began = time.monotonic()
    second = new_site().start().wait_until_ready()
    assert time.monotonic() - began < QUICK_S
    assert "Database: up to date" in second.output
    assert (second.home / "secret_key").read_text() == key


def test_a_killed_launcher_leaves_nothing_and_can_start_again_at_once(new_site: NewSite) -> None:
    site = new_site().start().wait_until_ready()
    processes = site.processes()

    assert site.signal(signal.SIGKILL) == -signal.SIGKILL
    again = new_site().start()
    assert all_gone(processes) == []
    assert again.wait_until_ready().get("/health/ready").status_code == 200


def test_a_launcher_killed_while_it_starts_leaves_nothing(new_site: NewSite) -> None:
    for moment in (0.9, 1.6, 2.4, 3.3, 4.4):
        site = new_site(f"home-{moment}").start()
        time.sleep(moment)
        processes = site.processes()
        site.signal(signal.SIGKILL)
        assert all_gone(processes) == []


@pytest.mark.parametrize(
    ("word", "name"),
    [("postgres", "PostgreSQL"), ("training@", "training worker"), ("inference.worker", "inference worker")],
)
def test_a_child_that_ends_is_named_and_takes_everything_down(
    new_site: NewSite, word: str, name: str
) -> None:
    site = new_site().start().wait_until_ready()
    processes = site.processes()
    site.child(word).kill()

    assert site.exit_code() == 1
    assert f"{name} was ended by SIGKILL" in site.output
    assert all_gone(processes) == []


def test_under_make_the_death_of_make_stops_everything(new_site: NewSite) -> None:
    site = (
        new_site(env={"HMI_FOLLOW_PARENT": "1"}).start("sh", "-c", '"$@"; exit $?', "make").wait_until_ready()
    )
    processes = site.processes()
    site.signal(signal.SIGKILL)
    assert all_gone(processes, within_s=60) == []
    assert "Stopped." in site.output


def test_a_taken_port_is_said_and_the_next_one_used(new_site: NewSite) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = taken.getsockname()[1]
        site = new_site(port=port).start().wait_until_ready()
        assert f"Port {port} is taken." in site.output
        assert not site.url.endswith(f":{port}")
        assert site.get("/health/live").status_code == 200


def test_a_second_copy_for_the_same_home_is_refused(new_site: NewSite) -> None:
    first = new_site().start().wait_until_ready()
    url = first.url
    second = new_site("other")
    second.home = first.home
    second._env["HMI_HOME"] = str(first.home)
    second.start()
    assert second.exit_code() == 1
    assert f"already runs for {first.home} at {url}" in second.output
    assert first.get("/health/ready").status_code == 200


def test_two_homes_run_at_once_even_when_both_want_the_same_port(new_site: NewSite) -> None:
    port = free_port()
    sites = [new_site(name, port=port).start() for name in ("one", "two")]
    first, second = (site.wait_until_ready() for site in sites)
    assert first.url != second.url
    homes = {site.get("/health/live").json()["home"] for site in sites}
    assert len(homes) == 2


def test_a_deep_home_with_spaces_works(new_site: NewSite) -> None:
    deep = (
        "a folder with spaces/"
        + "/".join(f"level {number} of a very deep tree" for number in range(8))
        + "/the 'home'"
    )
    site = new_site(deep).start().wait_until_ready()
    assert len(str(site.home)) > 200
    assert site.get("/health/ready").status_code == 200


def test_a_process_that_cannot_start_is_named_with_its_reason(new_site: NewSite) -> None:
    site = new_site(env={"HMI_BATCH_ROWS": "0"}).start()
    assert site.exit_code() == 1
    assert "inference worker ended with exit code" in site.output
    assert "HMI_BATCH_ROWS" in site.output


def test_external_servers_are_used_when_named(new_site: NewSite, postgres: None, redis_url: str) -> None:
    host = settings.DATABASES["default"]["HOST"]
    with psycopg.connect(host=host, port=5432, user="hmi", dbname="postgres", autocommit=True) as admin:
        admin.execute("CREATE DATABASE outside")
    database = f"postgresql:///outside?host={host}&user=hmi"
    site = new_site(env={"DATABASE_URL": database, "REDIS_URL": redis_url}).start().wait_until_ready()
    assert site.get("/health/ready").status_code == 200
    assert "PostgreSQL: external" in site.output
    assert "Redis: external" in site.output
    assert not (site.home / "postgres").exists()
    assert not (site.home / "valkey").exists()


def test_an_external_server_that_is_away_is_named(new_site: NewSite) -> None:
    site = new_site(env={"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/hmi"}).start()
    assert site.exit_code() == 1
    assert "DATABASE_URL" in site.output
    assert "Traceback" not in site.output


def test_a_body_sent_in_chunks_is_read_whole(new_site: NewSite) -> None:
    site = new_site().start().wait_until_ready()
    pieces = iter([b'{"username": "x', b'", "password"'])
    answer = httpx.post(f"{site.url}/api/v1/infer", content=pieces, trust_env=False)
    assert answer.json()["error"]["code"] in {"invalid_json", "unauthenticated"}
    too_long = (b"x" * 1024**2 for _ in range(20))
    answer = httpx.post(f"{site.url}/api/v1/infer", content=too_long, trust_env=False)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_what_it_keeps_is_private(new_site: NewSite) -> None:
    site = new_site().start().wait_until_ready()
    for name in ("secret_key", "postgres", "valkey", "artifacts", "uploads", "logs"):
        assert stat.S_IMODE((site.home / name).stat().st_mode) & 0o077 == 0

"""The embedded servers by themselves."""

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from hmi_site.embedded import identity, postgres
from hmi_site.embedded.lifeline import USER_NAMESPACE
from hmi_site.embedded.postgres import Postgres
from hmi_site.embedded.process import ChildError
from hmi_site.embedded.valkey import Valkey, find_program
from tests.services import kill, running, throwaway_postgres
from tests.settings import home_base

root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home; its runtime folder is in `run`."""
    return tmp_path / "home"


def server(home: Path, short: Path) -> Postgres:
    return Postgres(data=home / "postgres", runtime=short, log=home / "log", user="hmi", durable=False)


@pytest.fixture
def short(tmp_path: Path) -> Iterator[Path]:
    """A folder whose name is short enough for sockets."""
    folder = home_base() / f"hmi-test-{os.getpid()}-{abs(hash(tmp_path)) % 10**6}"
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_an_interrupted_first_start_is_made_good(home: Path, short: Path) -> None:
    half = home / "postgres.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18")
    one = server(home, short)
    with running(one.prepare(), one.ready):
        one.create_database("a")
        one.create_database("a")
    assert not half.exists()


def test_a_lock_file_of_a_server_that_is_gone_does_not_matter(home: Path, short: Path) -> None:
    one = server(home, short)
    child = one.prepare()
    (home / "postgres" / "postmaster.pid").write_text(f"{os.getpid()}\n{home / 'postgres'}\n")
    child = one.prepare()
    with running(child, one.ready):
        pass


def test_data_of_another_version_is_refused_with_advice(home: Path, short: Path) -> None:
    one = server(home, short)
    one.prepare()
    (home / "postgres" / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(ChildError, match="HMI_POSTGRES_BIN"):
        one.prepare()


def test_a_running_server_of_the_same_data_is_waited_for_then_named(
    home: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "OLD_SERVER_WAIT_S", 0.2)
    one = server(home, short)
    child = one.prepare()
    with running(child, one.ready), pytest.raises(ChildError, match=str(child.pid)):
        one.prepare()


def test_system_binaries_can_be_named(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="HMI_POSTGRES_BIN"):
        postgres.find_programs(tmp_path)
    with pytest.raises(ChildError, match="HMI_REDIS_BIN"):
        find_program(tmp_path)
    (tmp_path / "redis-server").touch()
    assert find_program(tmp_path) == tmp_path / "redis-server"
    assert find_program(tmp_path / "redis-server") == tmp_path / "redis-server"


@root_only
def test_under_root_it_runs_in_a_user_namespace_and_owns_nothing_elsewhere(home: Path, short: Path) -> None:
    one = server(home, short)
    child = one.prepare()
    assert child.identity == USER_NAMESPACE
    with running(child, one.ready):
        assert (home / "postgres").stat().st_uid == 0


@root_only
def test_where_there_are_no_user_namespaces_it_runs_as_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = pwd.getpwnam("nobody")
    monkeypatch.setattr(identity, "_candidates", lambda data: iter([f"{nobody.pw_uid}:{nobody.pw_gid}"]))
    binaries = world_readable_binaries()
    base = home_base() / f"hmi-test-nobody-{os.getpid()}"
    try:
        base.mkdir(mode=0o755)
        one = throwaway_postgres(base, binaries=binaries)
        child = one.prepare()
        with running(child, one.ready):
            one.create_database("x")
            assert (base / "postgres").stat().st_uid == nobody.pw_uid
    finally:
        subprocess.run(["rm", "-rf", str(base)], check=True)


@root_only
def test_when_nobody_can_reach_the_folder_it_says_what_to_do(
    home: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_candidates", lambda data: iter(["65534:65534"]))
    home.mkdir(parents=True)
    home.chmod(0o700)
    with pytest.raises(ChildError, match="HMI_HOME"):
        server(home, short).prepare()


def test_valkey_keeps_what_it_acknowledged_when_it_is_killed(home: Path, short: Path) -> None:
    for expected in (None, b"kept"):
        one = Valkey(data=home / "valkey", runtime=short, log=home / "log")
        child = one.prepare()
        with running(child, one.ready), redis.Redis(unix_socket_path=str(short / "valkey.sock")) as client:
            assert client.get("x") == expected
            client.set("x", "kept")
            kill(child)


def world_readable_binaries() -> Path:
    """PostgreSQL's binaries, if an ordinary user may run them here."""
    programs = postgres.find_programs(None)
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run(
        [*as_nobody, str(programs / "postgres"), "--version"], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"other users cannot reach {sys.prefix}")
    return programs

"""Where PostgreSQL, Redis and the mail server are."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from hmi_site.embedded.runtime_dir import RuntimeDirError, create_private_folder, runtime_dir
from hmi_site.server_urls import (
    broker_url,
    checked_redis_url,
    database_from_url,
    embedded_redis_url,
    mail_server,
)

LONGEST_SOCKET = 107


def test_an_external_database_is_read_as_libpq_reads_it() -> None:
    settings = database_from_url("postgresql://me:p%40ss@db.example:5433/hmi?sslmode=require")
    assert (settings["USER"], settings["PASSWORD"], settings["HOST"], settings["PORT"], settings["NAME"]) == (
        *("me", "p@ss", "db.example", "5433", "hmi"),
    )
    assert settings["OPTIONS"] == {"connect_timeout": 3, "sslmode": "require"}


def test_an_external_database_may_be_on_a_unix_socket() -> None:
    assert database_from_url("postgresql:///hmi?host=/run/postgresql")["HOST"] == "/run/postgresql"


@pytest.mark.parametrize(
    "url", ["mysql://a/b", "sqlite:///x", "postgresql://host", "postgresql://h/d?nonsense=1", "hmi"]
)
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        database_from_url(url)


def test_celery_names_unix_sockets_in_its_own_way() -> None:
    assert broker_url("unix:///tmp/x/valkey.sock") == "redis+socket:///tmp/x/valkey.sock?virtual_host=0"
    assert broker_url("unix:///tmp/x/valkey.sock?db=3") == "redis+socket:///tmp/x/valkey.sock?virtual_host=3"
    assert broker_url("redis://:secret@h:6379/1") == "redis://:secret@h:6379/1"


def test_only_redis_urls_are_taken() -> None:
    assert checked_redis_url("rediss://h") == "rediss://h"
    with pytest.raises(ImproperlyConfigured, match="REDIS_URL"):
        checked_redis_url("http://h")


def test_sockets_have_short_names_however_deep_the_home(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a very deep folder with spaces"] * 40)
    folder = runtime_dir(deep)
    assert len(embedded_redis_url(folder).removeprefix("unix://")) <= LONGEST_SOCKET
    assert len(str(folder / ".s.PGSQL.5432.lock")) <= LONGEST_SOCKET
    assert " " not in str(folder)


def test_each_home_has_sockets_of_its_own_however_it_is_spelt(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert runtime_dir(tmp_path / "a") != runtime_dir(tmp_path / "b")
    assert runtime_dir(tmp_path / "link" / "a") == runtime_dir(tmp_path / "a")


def test_a_folder_for_sockets_that_somebody_else_prepared_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trap").symlink_to(tmp_path)
    with pytest.raises(RuntimeDirError):
        create_private_folder(tmp_path / "trap")


def test_a_folder_for_sockets_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    create_private_folder(tmp_path / "open")
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o700


def test_without_a_url_messages_go_to_the_log() -> None:
    assert mail_server("").backend.endswith("console.EmailBackend")


def test_a_url_names_server_port_and_login() -> None:
    server = mail_server("smtp://hmi%40example.org:p%2Fw@mail.example:2525")
    assert (server.host, server.port, server.user, server.password) == (
        "mail.example", 2525, "hmi@example.org", "p/w",
    )  # fmt: skip
    assert server.backend.endswith("smtp.EmailBackend")


@pytest.mark.parametrize(
    ("url", "port", "starttls", "tls"), [("smtp://m", 587, True, False), ("smtps://m", 465, False, True)]
)
def test_messages_always_travel_encrypted(url: str, port: int, starttls: bool, tls: bool) -> None:
    server = mail_server(url)
    assert (server.port, server.starttls, server.tls) == (port, starttls, tls)


@pytest.mark.parametrize("url", ["mail.example", "http://mail.example", "smtp://", "smtp://m:port"])
def test_what_is_no_mail_server_stops_the_start(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="HMI_EMAIL_URL must look like"):
        mail_server(url)

"""Settings for PostgreSQL, Redis and the mail server, from their URLs or for the embedded servers."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict
from redis.connection import parse_url

PERCENT_ENCODING = "Write special characters of the user and the password as %40 (@), %2F (/) and so on."
"""Said in the place of the URL and of the libraries' messages, which quote passwords."""

EMBEDDED_DATABASE = "hmi"


EMBEDDED_ADMIN = "hmi"
"""The superuser of the embedded cluster. Only the launcher uses it, to set up the database."""


EMBEDDED_ROLE = "hmi_app"
"""The role of all processes. It owns the database, and row-level security applies to it."""


VALKEY_SOCKET = "valkey.sock"


CONNECT_TIMEOUT_S = 3


def embedded_database(runtime: Path) -> dict[str, Any]:
    """Django's settings for the embedded PostgreSQL, whose Unix socket is in `runtime`."""
    return {"NAME": EMBEDDED_DATABASE, "USER": EMBEDDED_ROLE, "HOST": str(runtime), "OPTIONS": {}}


def database_from_url(url: str) -> dict[str, Any]:
    """Django's settings for an external PostgreSQL, from a URL that libpq accepts."""
    if not url.startswith(("postgres://", "postgresql://")):
        raise ImproperlyConfigured("DATABASE_URL must start with postgresql://.")
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read. {PERCENT_ENCODING}") from None
    if "@" in f"{parts.get('host')}{parts.get('dbname')}" or re.search(r"[^\d,]", str(parts.get("port", ""))):
        raise ImproperlyConfigured(f"DATABASE_URL has no valid host and port. {PERCENT_ENCODING}")
    if not parts.get("dbname"):
        raise ImproperlyConfigured("DATABASE_URL must name a database: postgresql://user@host/name.")
    named = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    settings: dict[str, Any] = {key: str(parts.pop(part, "")) for key, part in named.items()}
    return {**settings, "OPTIONS": {"connect_timeout": CONNECT_TIMEOUT_S, **parts}}


def embedded_redis_url(runtime: Path) -> str:
    """The URL of the embedded Valkey."""
    return f"unix://{runtime / VALKEY_SOCKET}"


def checked_redis_url(url: str) -> str:
    """The URL of an external Redis. ImproperlyConfigured if redis-py cannot use it."""
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ImproperlyConfigured("REDIS_URL must start with redis://, rediss:// or unix://.")
    try:
        parse_url(url)  # type: ignore[no-untyped-call]
    except ValueError:
        raise ImproperlyConfigured(f"REDIS_URL cannot be read. {PERCENT_ENCODING}") from None
    return url


def broker_url(redis_url: str) -> str:
    """The URL of the same server for Celery, which spells Unix sockets differently."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    database = dict(pair.split("=", 1) for pair in parts.query.split("&") if "=" in pair).get("db", "0")
    return f"redis+socket://{parts.path}?virtual_host={database}"


PORTS = {"smtp": 587, "smtps": 465}


BACKENDS = "django.core.mail.backends"


@dataclass(frozen=True, slots=True)
class MailServer:
    """The values of Django's `EMAIL_…` settings."""

    backend: str = f"{BACKENDS}.console.EmailBackend"
    host: str = "localhost"
    port: int = 25
    user: str = ""
    password: str = ""
    starttls: bool = False
    tls: bool = False


def mail_server(url: str) -> MailServer:
    """The mail server of a URL: `smtp://user:password@host:587` (STARTTLS) or `smtps://…` (TLS).

    Without a URL, messages are written to the log.
    """
    if not url:
        return MailServer()
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
    except (KeyError, ValueError):
        raise _invalid_email_url() from None
    if not parts.hostname:
        raise _invalid_email_url()
    return MailServer(
        f"{BACKENDS}.smtp.EmailBackend",
        parts.hostname,
        port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        starttls=parts.scheme == "smtp",
        tls=parts.scheme == "smtps",
    )


def _invalid_email_url() -> ImproperlyConfigured:
    # Without the URL itself: it contains a password.
    return ImproperlyConfigured("HMI_EMAIL_URL must look like smtp://user:password@host:587 or smtps://….")

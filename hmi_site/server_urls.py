"""Where PostgreSQL and Redis are: the embedded ones of an HMI_HOME, or external ones by URL."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

EMBEDDED_DATABASE = "hmi"


EMBEDDED_ADMIN = "hmi"
"""Made with the cluster: a superuser, whom no policy holds. Only makes the database ready."""


EMBEDDED_ROLE = "hmi_app"
"""All processes of the product: owns the database and what is in it, and is held by the policies."""


VALKEY_SOCKET = "valkey.sock"


CONNECT_TIMEOUT_S = 3


def embedded_database(runtime: Path) -> dict[str, Any]:
    """Django's settings for the embedded PostgreSQL, whose unix socket lies in `runtime`."""
    return {"NAME": EMBEDDED_DATABASE, "USER": EMBEDDED_ROLE, "HOST": str(runtime), "OPTIONS": {}}


def database_from_url(url: str) -> dict[str, Any]:
    """Django's settings for an external PostgreSQL; `url` is anything libpq reads."""
    if not url.startswith(("postgres://", "postgresql://")):
        raise ImproperlyConfigured("DATABASE_URL must start with postgresql://.")
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ImproperlyConfigured(f"DATABASE_URL cannot be read: {error}") from None
    if not parts.get("dbname"):
        raise ImproperlyConfigured("DATABASE_URL must name a database: postgresql://user@host/name.")
    named = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    settings: dict[str, Any] = {key: str(parts.pop(part, "")) for key, part in named.items()}
    return {**settings, "OPTIONS": {"connect_timeout": CONNECT_TIMEOUT_S, **parts}}


def embedded_redis_url(runtime: Path) -> str:
    """redis-py's URL of the embedded Valkey."""
    return f"unix://{runtime / VALKEY_SOCKET}"


def checked_redis_url(url: str) -> str:
    """The URL of an external Redis, if redis-py can use it."""
    scheme = urlsplit(url).scheme
    if scheme not in {"redis", "rediss", "unix"}:
        raise ImproperlyConfigured("REDIS_URL must start with redis://, rediss:// or unix://.")
    return url


def broker_url(redis_url: str) -> str:
    """The same server in the words of Celery, which names unix sockets differently."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    database = dict(pair.split("=", 1) for pair in parts.query.split("&") if "=" in pair).get("db", "0")
    return f"redis+socket://{parts.path}?virtual_host={database}"


def socket_folders(database_host: str, redis_url: str) -> list[Path]:
    """The folders of the unix sockets among the two: libpq takes several hosts, with commas."""
    hosts = [Path(host) for host in database_host.split(",") if host.startswith("/")]
    redis = urlsplit(redis_url)
    return [*hosts, *([Path(redis.path).parent] if redis.scheme == "unix" else [])]


PORTS = {"smtp": 587, "smtps": 465}


BACKENDS = "django.core.mail.backends"


@dataclass(frozen=True, slots=True)
class MailServer:
    """What Django's settings `EMAIL_…` say."""

    backend: str = f"{BACKENDS}.console.EmailBackend"
    host: str = "localhost"
    port: int = 25
    user: str = ""
    password: str = ""
    starttls: bool = False
    tls: bool = False


def mail_server(url: str) -> MailServer:
    """`smtp://user:password@host:587` speaks STARTTLS, `smtps://…` TLS from the first byte; without a URL
    messages are written to the log of the process.
    """
    if not url:
        return MailServer()
    parts = urlsplit(url)
    try:
        port = parts.port or PORTS[parts.scheme]
    except (KeyError, ValueError):
        raise _unusable() from None
    if not parts.hostname:
        raise _unusable()
    return MailServer(
        f"{BACKENDS}.smtp.EmailBackend",
        parts.hostname,
        port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        starttls=parts.scheme == "smtp",
        tls=parts.scheme == "smtps",
    )


def _unusable() -> ImproperlyConfigured:
    # Without the URL itself: it holds a password.
    return ImproperlyConfigured("HMI_EMAIL_URL must look like smtp://user:password@host:587 or smtps://….")

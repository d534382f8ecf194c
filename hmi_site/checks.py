"""System checks: what would fail later, said before anything starts (`manage.py check`)."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as Caution
from django.db import Error as DatabaseError

from inference.serving.environment import SettingError, WorkerSettings
from inference.serving.exporter import ExporterSettings
from tenants.base.row_security import policies_missing, role_bypass

DEVICES = re.compile(r"auto|cpu|cuda(:\d+)?")
KEY_LENGTH = 32
OLDEST_REDIS = 7
PRIVILEGED_PORTS = 1024
CONSOLE = ".console.EmailBackend"


@register()
def check_compute(**_: Any) -> list[CheckMessage]:
    """The device that inference and training use."""
    if DEVICES.fullmatch(settings.HMI_DEVICE):
        return []
    hint = "Use auto, cpu, cuda or cuda:1."
    return [Error(f"HMI_DEVICE is {settings.HMI_DEVICE!r}.", hint=hint, id="hmi.E001")]


@register()
def check_capacity(**_: Any) -> list[CheckMessage]:
    """A full queue can say so only while some thread of the web server does not wait in it."""
    capacity, threads = settings.HMI_INFER_CAPACITY, settings.HMI_WEB_THREADS
    if capacity < threads:
        return []
    return [
        Error(
            f"HMI_INFER_CAPACITY is {capacity}, and the web server has {threads} threads: requests that wait "
            "could hold all of them, and nobody would get a page, the health or a 429.",
            hint="Raise HMI_WEB_THREADS above HMI_INFER_CAPACITY, or lower HMI_INFER_CAPACITY.",
            id="hmi.E002",
        )
    ]


@register()
def check_inference_worker(**_: Any) -> list[CheckMessage]:
    """What the inference worker reads from the environment, with the worker's own readers."""
    given = {"REDIS_URL": settings.REDIS_URL, "HMI_ARTIFACT_ROOT": str(settings.HMI_ARTIFACT_ROOT)}
    try:
        WorkerSettings.from_env({**os.environ, **given})
        ExporterSettings.from_env()
    except SettingError as error:
        hint = "Correct it or unset it; docs/operations.md lists what each setting takes."
        return [Error(f"The inference worker would not start: {error}.", hint=hint, id="hmi.E009")]
    return []


@register()
def check_folders(**_: Any) -> list[CheckMessage]:
    """Folders that must be writable, or be creatable."""
    folders = {
        "HMI_HOME": ("hmi.E003", settings.HMI_HOME),
        "HMI_ARTIFACT_ROOT": ("hmi.E004", settings.HMI_ARTIFACT_ROOT),
        "HMI_UPLOAD_ROOT": ("hmi.E005", settings.HMI_UPLOAD_ROOT),
        "HMI_EXPORT_ROOT": ("hmi.E011", settings.HMI_EXPORT_ROOT),
    }
    return [
        Error(
            f"{name} ({folder}) cannot be written.", hint=f"Set {name} to a folder of this user.", id=number
        )
        for name, (number, folder) in folders.items()
        if not _writable(Path(folder))
    ]


@register()
def check_programs(**_: Any) -> list[CheckMessage]:
    """The programs that HMI_POSTGRES_BIN and HMI_REDIS_BIN name."""
    programs = {
        "HMI_POSTGRES_BIN": ("hmi.E006", "bin folder"),
        "HMI_REDIS_BIN": ("hmi.E007", "server program"),
    }
    return [
        Error(f"{name} ({path}) does not exist.", hint=f"Name the {what}, or unset it.", id=number)
        for name, (number, what) in programs.items()
        if (path := getattr(settings, name)) is not None and not path.exists()
    ]


@register(Tags.security)
def check_secret_key(**_: Any) -> list[CheckMessage]:
    """Sessions are only as safe as the key."""
    if len(settings.SECRET_KEY) >= KEY_LENGTH:
        return []
    hint = f"Use {KEY_LENGTH} characters or more, or unset HMI_SECRET_KEY to have one made in HMI_HOME."
    return [Caution("HMI_SECRET_KEY is short.", hint=hint, id="hmi.W001")]


@register(Tags.security)
def check_exposure(**_: Any) -> list[CheckMessage]:
    """Beyond this machine, cookies need HTTPS and debug pages tell too much."""
    messages: list[CheckMessage] = []
    local = settings.HMI_HOST in {"127.0.0.1", "localhost", "::1"}
    if not local and not settings.HMI_HTTPS:
        hint = "Put a proxy that speaks HTTPS in front and set HMI_HTTPS=true."
        messages.append(
            Caution(
                f"HMI_HOST is {settings.HMI_HOST}: others reach it unencrypted.", hint=hint, id="hmi.W002"
            )
        )
    if not local and settings.DEBUG:
        messages.append(
            Error("HMI_DEBUG is on while others can reach the site.", hint="Unset it.", id="hmi.E008")
        )
    if not local and "*" in settings.ALLOWED_HOSTS:
        hint = "Set HMI_ALLOWED_HOSTS to the names that people use."
        problem = "Any host name is taken, and stands in the links of e-mails that anybody may ask for."
        by_mail = not settings.EMAIL_BACKEND.endswith(CONSOLE)
        kind, number = (Error, "hmi.E010") if by_mail else (Caution, "hmi.W006")
        messages.append(kind(problem, hint=hint, id=number))
    if settings.HMI_PORT < PRIVILEGED_PORTS and os.getuid() != 0:
        hint = "Use a port from 1024, or a proxy."
        messages.append(Caution(f"HMI_PORT {settings.HMI_PORT} may need root.", hint=hint, id="hmi.W003"))
    return messages


@register(Tags.security, deploy=True)
def check_mail(**_: Any) -> list[CheckMessage]:
    """Links that set a password belong into a mailbox, not into a log."""
    if not settings.EMAIL_BACKEND.endswith(CONSOLE):
        return []
    hint = "Name a mail server in HMI_EMAIL_URL: smtp://user:password@host:587."
    return [Caution("E-mails are written to the log.", hint=hint, id="hmi.W007")]


@register(Tags.security, deploy=True)
def check_database_role(**_: Any) -> list[CheckMessage]:
    """Whether PostgreSQL keeps tenants apart for the role of DATABASE_URL. (That of the embedded one is ours,
    and it is up only while the launcher runs.)"""
    return [] if settings.HMI_EMBEDDED_POSTGRES else list(_role_complaints())


def _role_complaints() -> Iterator[CheckMessage]:
    try:
        unheld, lacking = role_bypass(), policies_missing()
    except DatabaseError as error:
        hint = "Start it, or correct DATABASE_URL."
        yield Caution(f"DATABASE_URL does not answer: {error}", hint=hint, id="hmi.W008")
        return
    if unheld:
        hint = "Use a role that is neither and owns the tables; docs/operations.md says how to make it."
        problem = (
            f"The role of DATABASE_URL {unheld}: row-level security does not hold it to a tenant's rows."
        )
        yield Caution(problem, hint=hint, id="hmi.W009")
    if lacking:
        hint = "Run manage.py migrate as the role that owns the tables."
        yield Caution(f"No row-level security on {', '.join(lacking)}.", hint=hint, id="hmi.W010")


@register()
def check_redis(**_: Any) -> list[CheckMessage]:
    """An external Redis that is away or too old. (The embedded one is up only while the launcher runs.)"""
    return [] if settings.HMI_EMBEDDED_REDIS else list(_redis_complaints())


def _redis_complaints() -> Iterator[CheckMessage]:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2) as client:
            server: Any = client.info("server")
    except redis.RedisError as error:
        yield Caution(
            f"REDIS_URL does not answer: {error}", hint="Start it, or correct REDIS_URL.", id="hmi.W004"
        )
        return
    version = str(server["redis_version"])
    if int(version.split(".")[0]) < OLDEST_REDIS:
        hint = f"Use Redis {OLDEST_REDIS} or Valkey: older ones keep deleted stream entries pending for ever."
        yield Caution(f"Redis {version} is too old.", hint=hint, id="hmi.W005")


def _writable(folder: Path) -> bool:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)

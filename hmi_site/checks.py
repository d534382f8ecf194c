"""Django system checks of the settings (`manage.py check`)."""

import os
import re
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import Error as DatabaseError

from hmi_site import env
from inference.logs import shown_setting
from inference.serving.environment import SettingError, WorkerSettings
from inference.serving.exporter import ExporterSettings
from inference.visible_gpus import DEVICE_NAME, has_gpu
from tenants.accounts.models.api_key import KEY_PATTERN, KEY_RULE
from tenants.accounts.models.tenant import SLUG_PATTERN, SLUG_RULE
from tenants.base.row_security import policies_missing, role_bypass
from tenants.base.secrets import mask_secrets

MIN_KEY_LENGTH = 32
MIN_REDIS_VERSION = 7
MIN_PASSWORD_LENGTH = 8
USER_NAME = r"[\w.@+-]{1,150}"
USER_RULE = "A user name is at most 150 letters, digits and @ . + - _."
PRIVILEGED_PORTS = 1024
CONSOLE_BACKEND = ".console.EmailBackend"
OTHER_VARIABLES = frozenset(
    [
        *("HMI_BATCH_ROWS", "HMI_DEVICE_MB", "HMI_LOWER_CACHE_MB", "HMI_METRICS_ADDRESS"),
        *("HMI_ROOTS", "HMI_MODEL_CACHE_MB", "HMI_KV_CACHE_MB"),  # up to here: the inference worker
        *("HMI_READY_FILE", "HMI_SUPERVISED", "HMI_WEB_LISTENER"),  # the launcher
        *("HMI_API_KEY", "HMI_PROFILE", "HMI_URL"),  # clients
        *("HMI_BENCH_DIR", "HMI_DATA_DIR"),  # benchmarks
        *(
            "HMI_CHROMIUM",
            "HMI_FUZZ_CASES",
            "HMI_JOURNEYS",
            "HMI_SCREENSHOTS",
            "HMI_TEST_HOME",
            "HMI_TEST_HOME_OF",
        ),  # tests
    ]
)
"""Variables that something other than the settings reads."""


@register()
def check_unknown_variables(**_: Any) -> list[CheckMessage]:
    """Every HMI_ variable of the environment is read by something."""
    unknown = {name for name in os.environ if name.startswith("HMI_")} - env.in_use.keys() - OTHER_VARIABLES
    hint = "Correct the name or unset it; docs/operations.md lists the settings."
    return [CheckWarning(f"{name} is not a setting.", hint=hint, id="hmi.W011") for name in sorted(unknown)]


@register()
def check_compute(**_: Any) -> list[CheckMessage]:
    """HMI_DEVICE is a known device."""
    if DEVICE_NAME.fullmatch(settings.HMI_DEVICE):
        return []
    hint = "Use auto, cpu, cuda, or the index or UUID of a GPU: cuda:1."
    return [Error(f"HMI_DEVICE is {shown_setting(settings.HMI_DEVICE)}.", hint=hint, id="hmi.E001")]


@register()
def check_compiler(**_: Any) -> list[CheckMessage]:
    """Triton can compile what starts its kernels on a GPU."""
    if settings.HMI_DEVICE == "cpu" or not has_gpu():
        return []
    compiler = os.environ.get("CC") or "gcc"
    if (shutil.which(compiler) or shutil.which("clang")) and _python_headers().exists():
        return []
    return [
        CheckWarning(
            "Triton finds no C compiler or no Python headers, which the LoRAs of decoders need on a GPU.",
            hint="Debian and Ubuntu: apt-get install gcc python3-dev. Or bring along Triton's cache.",
            id="hmi.W012",
        )
    ]


def _python_headers() -> Path:
    return Path(sysconfig.get_paths()["include"]) / "Python.h"


@register()
def check_inference_worker(**_: Any) -> list[CheckMessage]:
    """The inference worker can read its environment variables."""
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
    """The folders are writable or can be created."""
    folders = {
        "HMI_HOME": ("hmi.E003", settings.HMI_HOME),
        "HMI_ARTIFACT_ROOT": ("hmi.E004", settings.HMI_ARTIFACT_ROOT),
        "HMI_UPLOAD_ROOT": ("hmi.E005", settings.HMI_UPLOAD_ROOT),
        "HMI_EXPORT_ROOT": ("hmi.E011", settings.HMI_EXPORT_ROOT),
    }
    return [
        Error(
            f"{name} ({folder}) cannot be written.",
            hint="Make it writable for this user, or set HMI_HOME to another folder.",
            id=number,
        )
        for name, (number, folder) in folders.items()
        if not _writable(Path(folder))
    ]


@register()
def check_programs(**_: Any) -> list[CheckMessage]:
    """The programs of HMI_POSTGRES_BIN and HMI_REDIS_BIN exist."""
    programs = {
        "HMI_POSTGRES_BIN": ("hmi.E006", "bin folder"),
        "HMI_REDIS_BIN": ("hmi.E007", "server program"),
    }
    return [
        Error(f"{name} ({path}) does not exist.", hint=f"Name the {what}, or unset it.", id=number)
        for name, (number, what) in programs.items()
        if (path := getattr(settings, name)) is not None and not path.exists()
    ]


@register()
def check_first_account(**_: Any) -> list[CheckMessage]:
    """The HMI_INIT_ settings fit together, and each has the form of what it names."""
    hint = "Correct it or unset it; docs/operations.md says what it takes."
    problems = _first_account_problems()
    return [Error(f"{name} {problem}", hint=hint, id=number) for name, number, problem in problems]


def _first_account_problems() -> Iterator[tuple[str, str, str]]:
    tenant, user, key = settings.HMI_INIT_TENANT, settings.HMI_INIT_USER, settings.HMI_INIT_KEY
    password = settings.HMI_INIT_PASSWORD
    if tenant and not re.fullmatch(SLUG_PATTERN, tenant):
        yield "HMI_INIT_TENANT", "hmi.E012", f"is {shown_setting(tenant)}. {SLUG_RULE}"
    if user and not re.fullmatch(USER_NAME, user):
        yield "HMI_INIT_USER", "hmi.E013", f"is {shown_setting(user)}. {USER_RULE}"
    if password and len(password) < MIN_PASSWORD_LENGTH:
        yield "HMI_INIT_PASSWORD", "hmi.E014", f"has fewer than {MIN_PASSWORD_LENGTH} characters."
    if password and not user:
        yield "HMI_INIT_PASSWORD", "hmi.E014", "is set, but HMI_INIT_USER is not."
    if key and not KEY_PATTERN.fullmatch(key):
        yield "HMI_INIT_KEY", "hmi.E015", f"cannot be used. {KEY_RULE}"
    if key and not tenant:
        yield "HMI_INIT_KEY", "hmi.E015", "is set, but HMI_INIT_TENANT is not."


@register(Tags.security)
def check_secret_key(**_: Any) -> list[CheckMessage]:
    """HMI_SECRET_KEY is long enough."""
    if len(settings.SECRET_KEY) >= MIN_KEY_LENGTH:
        return []
    hint = f"Use {MIN_KEY_LENGTH} characters or more, or unset HMI_SECRET_KEY to generate one in HMI_HOME."
    return [CheckWarning("HMI_SECRET_KEY is short.", hint=hint, id="hmi.W001")]


@register(Tags.security)
def check_exposure(**_: Any) -> list[CheckMessage]:
    """A site that other machines can reach uses HTTPS and known host names."""
    messages: list[CheckMessage] = []
    local = settings.HMI_HOST in {"127.0.0.1", "localhost", "::1"}
    if not local and not settings.HMI_HTTPS:
        hint = "Use an HTTPS proxy and set HMI_HTTPS=true."
        messages.append(
            CheckWarning(
                f"HMI_HOST is {settings.HMI_HOST}: connections are not encrypted.", hint=hint, id="hmi.W002"
            )
        )
    if not local and "*" in settings.ALLOWED_HOSTS:
        hint = "Set HMI_ALLOWED_HOSTS to the site's host names."
        problem = "Every host name is accepted, so an attacker can choose the host of links in e-mails."
        by_mail = not settings.EMAIL_BACKEND.endswith(CONSOLE_BACKEND)
        kind, number = (Error, "hmi.E010") if by_mail else (CheckWarning, "hmi.W006")
        messages.append(kind(problem, hint=hint, id=number))
    if settings.HMI_PORT < PRIVILEGED_PORTS and os.getuid() != 0:
        hint = "Use a port from 1024, or a proxy."
        messages.append(
            CheckWarning(f"HMI_PORT {settings.HMI_PORT} may need root.", hint=hint, id="hmi.W003")
        )
    return messages


@register(Tags.security, deploy=True)
def check_mail(**_: Any) -> list[CheckMessage]:
    """E-mails with password links are sent, not logged."""
    if not settings.EMAIL_BACKEND.endswith(CONSOLE_BACKEND):
        return []
    hint = "Set HMI_EMAIL_URL to a mail server: smtp://user:password@host:587."
    return [CheckWarning("E-mails are written to the log.", hint=hint, id="hmi.W007")]


@register(Tags.security, deploy=True)
def check_database_role(**_: Any) -> list[CheckMessage]:
    """Row-level security applies to the role of DATABASE_URL. The embedded PostgreSQL is not checked."""
    return [] if settings.HMI_EMBEDDED_POSTGRES else list(_database_role_warnings())


def _database_role_warnings() -> Iterator[CheckMessage]:
    try:
        bypass, missing = role_bypass(), policies_missing()
    except DatabaseError as error:
        hint = "Start it, or correct DATABASE_URL."
        yield CheckWarning(
            f"DATABASE_URL cannot be reached: {mask_secrets(str(error))}", hint=hint, id="hmi.W008"
        )
        return
    if bypass:
        hint = "Use a role that is neither and owns the tables; docs/operations.md says how to create it."
        problem = f"The role of DATABASE_URL {bypass}: row-level security does not apply to it."
        yield CheckWarning(problem, hint=hint, id="hmi.W009")
    if missing:
        hint = "Run manage.py migrate as the role that owns the tables."
        yield CheckWarning(f"No row-level security on {', '.join(missing)}.", hint=hint, id="hmi.W010")


@register()
def check_redis(**_: Any) -> list[CheckMessage]:
    """An external Redis can be reached and is new enough. The embedded one is not checked."""
    return [] if settings.HMI_EMBEDDED_REDIS else list(_redis_warnings())


def _redis_warnings() -> Iterator[CheckMessage]:
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2) as client:
            server: Any = client.info("server")
    except redis.RedisError as error:
        yield CheckWarning(
            f"REDIS_URL cannot be reached: {mask_secrets(str(error))}",
            hint="Start it, or correct REDIS_URL.",
            id="hmi.W004",
        )
        return
    version = str(server["redis_version"])
    if int(version.split(".")[0]) < MIN_REDIS_VERSION:
        hint = f"Use Redis {MIN_REDIS_VERSION} or Valkey: older ones never drop deleted pending entries."
        yield CheckWarning(f"Redis {version} is too old.", hint=hint, id="hmi.W005")


def _writable(folder: Path) -> bool:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)

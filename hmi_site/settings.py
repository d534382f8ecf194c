"""Django settings. Those that differ between installations are environment variables (see env.py)."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF

from hmi_site import env, secret_key, server_urls
from hmi_site.embedded.runtime_dir import runtime_dir
from hmi_site.library_settings import *  # noqa: F403
from inference.logs import LEVELS, STYLES, log_config

BASE_DIR = Path(__file__).resolve().parent.parent

# What every process creates is for its user alone; children inherit this.
os.umask(0o077)

# --- folders ----------------------------------------------------------------------------------------------
HMI_HOME = env.path("HMI_HOME", BASE_DIR / "var")
HMI_ARTIFACT_ROOT = env.path("HMI_ARTIFACT_ROOT", HMI_HOME / "artifacts")
HMI_UPLOAD_ROOT = env.path("HMI_UPLOAD_ROOT", HMI_HOME / "uploads")
HMI_EXPORT_ROOT = HMI_HOME / "exports"
HMI_LOG_ROOT = HMI_HOME / "logs"
HMI_RUNTIME_DIR = env.path("HMI_RUNTIME_DIR", runtime_dir(HMI_HOME))
HMI_POSTGRES_BIN = env.optional_path("HMI_POSTGRES_BIN")
HMI_REDIS_BIN = env.optional_path("HMI_REDIS_BIN")

# --- serving and training ---------------------------------------------------------------------------------
HMI_HOST = env.text("HMI_HOST", "127.0.0.1")
HMI_PORT = env.integer("HMI_PORT", 8000, minimum=1, maximum=65535)
HMI_WEB_THREADS = env.integer("HMI_WEB_THREADS", 128, minimum=2, maximum=4096)
# Open event streams of job pages. Each holds a connection, but no thread.
HMI_LIVE_STREAMS = 256
HMI_DEVICE = env.text("HMI_DEVICE", "auto")
HMI_DTYPE = env.choice("HMI_DTYPE", "auto", ("auto", "bfloat16", "float16", "float32"))
HF_ENDPOINT = env.text("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
HMI_POLICY = env.choice("HMI_POLICY", "cascade", ("cascade", "full", "table"))
# The share of the texts answered from the tables that is also computed in full, in the background.
HMI_CHECK_SHARE = env.decimal("HMI_CHECK_SHARE", 0.01, minimum=0.0, maximum=1.0)
# Shares of a version's day that differ by more from those of its dev split, over so many texts, are drift.
HMI_DRIFT_TOLERANCE = 0.1
HMI_DRIFT_MIN_TEXTS = 200
HMI_TRAIN_THREADS = env.integer("HMI_TRAIN_THREADS", 0, minimum=0)
# Infer requests that may wait: each holds some memory, but no thread. They have at most 512 tokens for each.
HMI_INFER_CAPACITY = env.integer("HMI_INFER_CAPACITY", 4096, minimum=1)
HMI_INFER_DEADLINE_S = env.decimal("HMI_INFER_DEADLINE_S", 30.0, minimum=0.001)
# A chat or a completion has many steps.
HMI_GENERATION_DEADLINE_S = 10 * HMI_INFER_DEADLINE_S
# Seconds for which API keys and models are cached, and usage is buffered. Tests set 0.
HMI_KEY_CACHE_S = 5.0
HMI_MODEL_CACHE_S = 1.0
HMI_USAGE_INTERVAL_S = 1.0
# For how many days single infer requests are logged (0: not at all), and how many of a tenant a second each
# process logs: at most 0.4 GB of the database a day.
HMI_REQUEST_LOG_DAYS = env.integer("HMI_REQUEST_LOG_DAYS", 7, minimum=0, maximum=3650)
HMI_REQUEST_LOG_RATE = 10
MAX_RATE = 2_000_000_000  # what the database columns hold
# Requests and tokens a minute for tenants whose quota sets no rate. 0: no limit.
HMI_RATE_REQUESTS = env.integer("HMI_RATE_REQUESTS", 60_000, minimum=0, maximum=MAX_RATE)
HMI_RATE_TOKENS = env.integer("HMI_RATE_TOKENS", 60_000_000, minimum=0, maximum=MAX_RATE)
HMI_RATE_MANAGE = 3_000
HMI_MAX_INPUTS = 256
HMI_MAX_INPUT_BYTES = 2 * 1024**2
HMI_MAX_BODY_BYTES = 16 * 1024**2
HMI_UPLOAD_MAX_BYTES = env.integer("HMI_UPLOAD_MAX_BYTES", 4 * 1024**3, minimum=1)
HMI_UPLOAD_EXPIRY_H = 48.0
HMI_CHECK_INLINE_BYTES = 8 * 1024**2
HMI_MAX_CHECKS = 10
HMI_IMPORT_MAX_BYTES = 16 * 1024**3
# The commands that check imported artifacts, in a sandboxed process: web processes load no models.
HMI_ARTIFACT_CHECK = (sys.executable, "-m", "inference.artifact_check")
HMI_ARTIFACT_CHECK_NICENESS = 10
# Fewer words do not teach a domain anything.
HMI_CORPUS_MIN_WORDS = 20_000
# Private networks that webhooks may go to, by plain http as well.
HMI_WEBHOOK_NETWORKS = env.networks("HMI_WEBHOOK_NETWORKS")
# The address of the site, for links in e-mails that no request caused.
HMI_SITE_URL = env.text("HMI_SITE_URL", f"http://{HMI_HOST}:{HMI_PORT}").rstrip("/")
# The contact that pages show to tenants who need more quota.
HMI_CONTACT = env.text("HMI_CONTACT")

# --- security ---------------------------------------------------------------------------------------------
SECRET_KEY = env.text("HMI_SECRET_KEY") or secret_key.read_or_create(HMI_HOME)
# Earlier keys, which still verify signatures and decrypt secrets.
SECRET_KEY_FALLBACKS = env.comma_separated("HMI_SECRET_KEY_FALLBACKS", [])
ALLOWED_HOSTS = env.comma_separated(
    "HMI_ALLOWED_HOSTS",
    ["*"] if HMI_HOST in {"0.0.0.0", "::"} else ["localhost", "127.0.0.1", "[::1]", HMI_HOST],  # noqa: S104
)
CSRF_TRUSTED_ORIGINS = [HMI_SITE_URL] if env.is_set("HMI_SITE_URL") else []
HMI_HTTPS = env.flag("HMI_HTTPS", False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HMI_HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HMI_HTTPS else None
SECURE_SSL_REDIRECT = HMI_HTTPS
# Requested on the machine itself, without the proxy.
SECURE_REDIRECT_EXEMPT = [r"^health/", r"^metrics$"]
SECURE_HSTS_SECONDS = 31_536_000 if HMI_HTTPS else 0
# HSTS for subdomains and preloading are up to the owner of the domain.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
HMI_TRUSTED_PROXIES = env.integer("HMI_TRUSTED_PROXIES", 0, minimum=0, maximum=16)
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}
CSRF_FAILURE_VIEW = "hmi_site.http.errors.csrf_failure"
# The first tenant, user and key: the launcher creates them where they are absent (launcher/first_account.py).
HMI_INIT_TENANT = env.text("HMI_INIT_TENANT")
HMI_INIT_USER = env.text("HMI_INIT_USER")
HMI_INIT_PASSWORD = env.text("HMI_INIT_PASSWORD")
HMI_INIT_KEY = env.text("HMI_INIT_KEY")
HMI_METRICS_TOKEN = env.text("HMI_METRICS_TOKEN")
# Browsers share cookies between ports, and one machine may run several installations.
SESSION_COOKIE_NAME = f"hmi_session_{HMI_PORT}"
CSRF_COOKIE_NAME = f"hmi_csrf_{HMI_PORT}"

# --- applications -----------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "rest_framework_api_key",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "corsheaders",
    "django_htmx",
    "tree_queries",
    "axes",
    "tenants.base",
    "tenants.audit",
    "tenants.usage",
    "tenants.accounts",
    "tenants.datasets",
    "tenants.webhooks",
    "versiontree.jobs",
    "versiontree.tree",
    "versiontree.transfer",
    "inference.api",
    "inference.batches",
    "inference.openai",
    "inference.open_inference",
    "frontend",
    "allauth",  # after frontend, whose templates override its own
    "allauth.account",
    "allauth.mfa",
    "demo.record",
    "hmi_site",
]
MIDDLEWARE = [
    "hmi_site.http.middleware.RequestScope",
    "hmi_site.http.request_log.RequestLog",
    "hmi_site.metrics.requests.RequestMetrics",
    "hmi_site.http.middleware.Compression",
    "hmi_site.http.middleware.CrossOrigin",
    "django.middleware.security.SecurityMiddleware",
    "hmi_site.http.middleware.SecurityHeaders",
    "inference.api.rates.throttles.RateHeaders",
    "hmi_site.http.middleware.RequestGuard",
    "hmi_site.http.download_limit.DownloadLimit",
    "inference.api.parsers.LargeBodies",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "hmi_site.http.middleware.StaffSecondFactor",
    "hmi_site.http.middleware.ErrorPages",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "hmi_site.urls"
WSGI_APPLICATION = "hmi_site.wsgi.application"
ASGI_APPLICATION = "hmi_site.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "hmi_site/templates"],  # some of the admin theme's templates are overridden here
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": ["tenants.base.templatetags.file_sizes"],
        },
    }
]
AUTH_USER_MODEL = "accounts.User"

# --- PostgreSQL, Redis, Celery ----------------------------------------------------------------------------
DATABASE_URL = env.text("DATABASE_URL")
HMI_EMBEDDED_POSTGRES = not DATABASE_URL
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **(
            server_urls.database_from_url(DATABASE_URL)
            if DATABASE_URL
            else server_urls.embedded_database(HMI_RUNTIME_DIR)
        ),
        "CONN_HEALTH_CHECKS": True,
    }
}
# tenants/base/scope.py stores the tenant scope in it.
DATABASES["default"]["OPTIONS"]["application_name"] = "hmi"
# Only the web server, with its many threads, has a pool. Other processes have one connection each.
if env.is_set("HMI_WEB_LISTENER"):
    DATABASES["default"]["OPTIONS"]["pool"] = {
        "min_size": 1,
        "max_size": min(32, HMI_WEB_THREADS),
        "timeout": 3,  # the default is 30 s, too long for a request while the database is down
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

HMI_EMBEDDED_REDIS = not env.text("REDIS_URL")
REDIS_URL = (
    server_urls.embedded_redis_url(HMI_RUNTIME_DIR)
    if HMI_EMBEDDED_REDIS
    else server_urls.checked_redis_url(env.text("REDIS_URL"))
)
CACHES = {
    # Counters of rate limits, which may be lost.
    "default": {
        "BACKEND": "hmi_site.shared_cache.SharedCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "hmi:cache",
    },
}

CELERY_BROKER_URL = server_urls.broker_url(REDIS_URL)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_DEFAULT_QUEUE = "short"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
# Tasks expire with the next tick, which does their work.
CELERY_BEAT_SCHEDULE = {
    "recover-lost-work": {
        "task": "base.recover_lost_work",
        "schedule": 5.0,
        "options": {"queue": "short", "expires": 5.0},
    },
    "delete-expired": {
        "task": "base.delete_expired",
        "schedule": 3600.0,
        "options": {"queue": "short", "expires": 3600.0},
    },
    # Retries, and deliveries whose message was lost.
    "send-webhooks": {
        "task": "webhooks.send",
        "schedule": 5.0,
        "options": {"queue": "short", "expires": 5.0},
    },
    "watch-disks": {
        "task": "base.watch_disks",
        "schedule": 300.0,
        "options": {"queue": "short", "expires": 300.0},
    },
    # Expired prompts and answers stay in Valkey's file until it is rewritten.
    "rewrite-append-only-file": {
        "task": "inference.rewrite_append_only_file",
        "schedule": 60.0,
        "options": {"queue": "short", "expires": 60.0},
    },
    "watch-drift": {
        "task": "inference.watch_drift",
        "schedule": 300.0,
        "options": {"queue": "short", "expires": 300.0},
    },
    # Repairs a manifest whose writer was killed between the commit and the file.
    "publish-manifest": {
        "task": "workers.publish_manifest",
        "schedule": 60.0,
        "options": {"queue": "short", "expires": 60.0},
    },
}

# --- language, time, files --------------------------------------------------------------------------------
LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False
FORMAT_MODULE_PATH = ["hmi_site.formats"]
USE_TZ = True
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
DATA_UPLOAD_MAX_MEMORY_SIZE = HMI_MAX_BODY_BYTES
FILE_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024**2
FILE_UPLOAD_TEMP_DIR = tempfile.gettempdir()
FILE_UPLOAD_HANDLERS = [
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "tenants.base.upload_handler.DiskUploadHandler",
]

# --- API --------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.accounts.authentication.ApiKeyAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_THROTTLE_CLASSES": ["inference.api.rates.throttles.ManageRate"],
    "DEFAULT_PARSER_CLASSES": [
        "hmi_site.http.rest_framework.StrictJSONParser",
        "tenants.base.api.inputs.UploadFormParser",
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "hmi_site.openapi.schema.HmiAutoSchema",
    "DEFAULT_METADATA_CLASS": "hmi_site.http.rest_framework.AllowedMethods",
    "DEFAULT_VERSIONING_CLASS": None,
    "EXCEPTION_HANDLER": "hmi_site.http.errors.api_exception_handler",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

# --- logs -------------------------------------------------------------------------------------------------
HMI_LOG_FORMAT = env.choice("HMI_LOG_FORMAT", "line", [*STYLES])
HMI_LOG_LEVEL = env.choice("HMI_LOG_LEVEL", "info", LEVELS)
LOGGING = log_config(HMI_LOG_FORMAT, HMI_LOG_LEVEL)
# Pass the records of Django and the web server to the root logger.
LOGGING["loggers"] |= {
    name: {"handlers": [], "level": "INFO", "propagate": True}
    for name in ("django", "django.server", "_granian")
}
for name in ("httpx", "httpx2", "axes"):
    LOGGING["loggers"][name] = {"level": "WARNING"}

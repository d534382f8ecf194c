"""The product's own processes, as children of the launcher."""

import json
import math
import os
import resource
import secrets
import ssl
import sys
from pathlib import Path

import httpx
import redis
from django.conf import settings

from hmi_site.embedded.lifeline import SUPERVISED
from hmi_site.embedded.process import Child
from hmi_site.health import ready_workers
from hmi_site.launcher.supervisor import Ready
from hmi_site.launcher.web_server import LISTENER, Port
from hmi_site.ready_file import READY_FILE

TRAINING_NICENESS = 10


DEFAULT_QUEUE_PROCESSES = 2


WEBHOOK_CONCURRENCY = 8


BATCH_CONCURRENCY = 2


WEB_POOL = 32


WEB_STOP_S = 10


MAX_CONNECTIONS = 4096


RETURNS_MEMORY = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(1024**2)}
"""Has glibc give large bodies back to the system. With a heap for each thread it keeps hundreds of MB."""


_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""To load the usual ones takes longer than to ask a server on this machine, which has none."""


def inference_worker() -> tuple[Child, Ready]:
    """The process that answers infer requests."""
    name = f"worker-{secrets.token_hex(4)}"
    child = _python(
        "inference worker",
        ["-m", "inference.worker"],
        REDIS_URL=settings.REDIS_URL,
        HMI_WORKER_NAME=name,
        HMI_DEVICE=settings.HMI_DEVICE,
        HMI_DTYPE=settings.HMI_DTYPE,
        OMP_NUM_THREADS=str(usable_cpus()),
    )
    return child, lambda: _works(name)


def training_worker() -> tuple[Child, Ready]:
    """The Celery worker of long jobs: one at a time, capped threads, low priority."""
    threads = str(training_threads(settings.HMI_TRAIN_THREADS))
    return _celery(
        "training worker",
        *("worker", "--queues", "training", "--concurrency", "1", "--hostname", "training@%h", *_QUIET),
        nice=TRAINING_NICENESS,
        HMI_TRAIN_THREADS=threads,
        OMP_NUM_THREADS=threads,
    )


def default_worker() -> tuple[Child, Ready]:
    """The Celery worker of everything short."""
    processes = str(DEFAULT_QUEUE_PROCESSES)
    return _celery(
        "task worker",
        *("worker", "--queues", "default", "--concurrency", processes, "--hostname", "default@%h", *_QUIET),
        OMP_NUM_THREADS="1",
    )


def uploads_worker() -> tuple[Child, Ready]:
    """The Celery worker that reads what was uploaded, one upload at a time."""
    return _celery(
        "upload worker",
        *("worker", "--queues", "uploads", "--concurrency", "1", "--hostname", "uploads@%h", *_QUIET),
        nice=TRAINING_NICENESS,
        OMP_NUM_THREADS="1",
    )


def webhook_worker() -> tuple[Child, Ready]:
    """The Celery worker that sends to webhooks: threads, since they wait for other hosts."""
    threads = ("--pool", "threads", "--concurrency", str(WEBHOOK_CONCURRENCY))
    return _celery(
        "webhook worker",
        *("worker", "--queues", "webhooks", *threads, "--hostname", "webhooks@%h", *_QUIET),
        OMP_NUM_THREADS="1",
    )


def batch_worker() -> tuple[Child, Ready]:
    """The Celery worker that has batches answered, some at a time."""
    processes = str(BATCH_CONCURRENCY)
    return _celery(
        "batch worker",
        *("worker", "--queues", "batches", "--concurrency", processes, "--hostname", "batches@%h", *_QUIET),
        nice=TRAINING_NICENESS,
        OMP_NUM_THREADS="1",
    )


def beat() -> tuple[Child, Ready]:
    """The clock. Its schedule is in the settings, so it keeps no file."""
    return _celery("beat", "beat", "--scheduler", "celery.beat:Scheduler")


def web(port: Port) -> tuple[Child, Ready]:
    """The web server: one process with many threads, since a thread waits for each infer request."""
    host = f"[{port.address}]" if ":" in port.address else port.address
    threads = str(settings.HMI_WEB_THREADS)
    loaded = _ready_file("web")
    child = _python(
        "web",
        [
            *("-m", "hmi_site.launcher.web_server", "--interface", "asgi", "--no-ws"),
            *("--host", port.address, "--port", str(port.number)),
            *("--http", "1"),  # of HTTP/2 each connection could have many slow readers
            *("--backpressure", str(_most_connections())),
            *("--log-config", str(_log_config_file())),
            *("--workers-kill-timeout", str(WEB_STOP_S), "hmi_site.asgi:application"),
        ],
        HMI_PORT=str(port.number),
        HMI_WEB_THREADS=threads,
        HMI_DB_POOL=str(settings.HMI_DB_POOL or WEB_POOL),
        **RETURNS_MEMORY,
        **{LISTENER: str(port.listener.fileno()), READY_FILE: str(loaded)},
    )
    child.inherits = [port.listener.fileno()]
    child.stop_timeout_s = WEB_STOP_S + 5
    # First the file: until it is there, nobody accepts what asks, and asking would take all of its time.
    return child, lambda: loaded.exists() and _answers(f"http://{host}:{port.number}/health/live")


def _most_connections() -> int:
    """How many connections the web server accepts, those that are idle among them: half of the files that it
    may open."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_CONNECTIONS if files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, files // 2)
    return max(most, settings.HMI_WEB_THREADS + settings.HMI_LIVE_STREAMS)


def _log_config_file() -> Path:
    """The site's log settings for the web server's own process, which knows no Django."""
    file = Path(settings.HMI_RUNTIME_DIR) / "log-config.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings.LOGGING))
    return file


_QUIET = ("--without-gossip", "--without-mingle", "--loglevel", "INFO")


def _celery(name: str, *arguments: str, nice: int = 0, **env: str) -> tuple[Child, Ready]:
    ready_file = _ready_file(name)
    child = _python(
        name,
        ["-m", "celery", "--quiet", "-A", "hmi_site", *arguments],
        **{READY_FILE: str(ready_file), **env},
    )
    child.nice = nice
    child.stop_timeout_s = 30.0  # a running job hands itself back to the queue at its next check
    return child, ready_file.exists


def _ready_file(name: str) -> Path:
    """What the process that is to be started touches once it takes work; not there yet."""
    file = Path(settings.HMI_RUNTIME_DIR) / f"{name.replace(' ', '-')}.ready"
    file.unlink(missing_ok=True)
    return file


def _python(name: str, arguments: list[str], **env: str) -> Child:
    base = Path(settings.BASE_DIR)
    paths = ("HMI_HOME", "HMI_ARTIFACT_ROOT", "HMI_UPLOAD_ROOT", "HMI_RUNTIME_DIR")
    return Child(
        name=name,
        command=[sys.executable, *arguments],
        log=settings.HMI_LOG_ROOT / f"{name.replace(' ', '-')}.log",
        folder=base,
        env={
            **os.environ,
            **{path: str(getattr(settings, path)) for path in paths},
            "DJANGO_SETTINGS_MODULE": "hmi_site.settings",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(base), os.environ.get("PYTHONPATH")])),
            "PYTHONUNBUFFERED": "1",
            SUPERVISED: str(os.getpid()),
            **env,
        },
    )


def _works(name: str) -> bool:
    try:
        return any(worker.name == name for worker in ready_workers())
    except redis.RedisError:
        return False


def _answers(url: str) -> bool:
    """Whether a server is up there."""
    try:
        return httpx.get(url, timeout=3.0, trust_env=False, verify=_NO_CERTIFICATES).is_success
    except httpx.HTTPError:
        return False


CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


FEW = 2


def usable_cpus() -> int:
    """Processors this process may run on, not more than a container's quota."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = CGROUP_QUOTA.read_text(encoding="ascii").split()
        return max(1, min(allowed, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or "max"
        return allowed


def training_threads(asked: int) -> int:
    """Threads for training: as asked, or all but one processor (both of two; it runs at a low priority)."""
    cpus = usable_cpus()
    return asked or (cpus if cpus <= FEW else cpus - 1)

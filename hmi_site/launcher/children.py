"""The product's processes, which the launcher starts as its children."""

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

from hmi_site.embedded.parent_death import SUPERVISOR_PID
from hmi_site.embedded.process import Child
from hmi_site.health import started_workers
from hmi_site.launcher.supervisor import Ready
from hmi_site.launcher.web_server import LISTENER_FD, Port
from hmi_site.ready_file import READY_FILE

TRAINING_NICENESS = 10
QUICK_NICENESS = 5
SHORT_CONCURRENCY = 10
LONG_CONCURRENCY = 3
WEB_STOP_S = 10
MAX_CONNECTIONS = 4096
MALLOC_ENV = {"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": str(1024**2)}
"""Makes glibc return the memory of large bodies. With a heap per thread it keeps hundreds of MB."""
PASSIVE_THREADS = {"OMP_WAIT_POLICY": "passive"}
"""Threads of PyTorch sleep while they wait for each other. They would spin, and beside another busy process a
product of 900 rows with two threads then takes 16 ms in place of 1."""
HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
"""Only the training worker gets the token of the Hugging Face hub: its jobs download checkpoints."""
_EMPTY_SSL_CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Loading certificates takes longer than a health check on this machine, which needs none."""


def inference_worker() -> tuple[Child, Ready]:
    """The inference worker."""
    name = f"worker-{secrets.token_hex(4)}"
    child = _python(
        "inference worker",
        ["-m", "inference.worker", "--name", name],
        REDIS_URL=settings.REDIS_URL,
        HMI_DEVICE=settings.HMI_DEVICE,
        HMI_DTYPE=settings.HMI_DTYPE,
        OMP_NUM_THREADS=str(usable_cpus()),
    )
    return child, lambda: _is_worker_started(name)


def training_worker() -> tuple[Child, Ready]:
    """The Celery worker of training jobs: one at a time, limited threads, low priority."""
    threads = str(training_threads(settings.HMI_TRAIN_THREADS))
    return _celery(
        "training worker",
        *("worker", "--queues", "training", "--concurrency", "1", "--hostname", "training@%h", *_QUIET),
        nice=TRAINING_NICENESS,
        HMI_TRAIN_THREADS=threads,
        OMP_NUM_THREADS=threads,
        **{name: os.environ[name] for name in HUB_TOKENS if name in os.environ},
    )


def quick_worker() -> tuple[Child, Ready]:
    """The Celery worker of quick versions: one at a time, limited threads, before trainings."""
    threads = str(training_threads(settings.HMI_TRAIN_THREADS))
    return _celery(
        "quick worker",
        *("worker", "--queues", "quick", "--concurrency", "1", "--hostname", "quick@%h", *_QUIET),
        nice=QUICK_NICENESS,
        HMI_TRAIN_THREADS=threads,
        OMP_NUM_THREADS=threads,
    )


def short_worker() -> tuple[Child, Ready]:
    """The Celery worker of short tasks. Its threads mostly wait for the database or the network."""
    threads = ("--pool", "threads", "--concurrency", str(SHORT_CONCURRENCY))
    return _celery(
        "short worker",
        *("worker", "--queues", "short", *threads, "--hostname", "short@%h", *_QUIET),
        OMP_NUM_THREADS="1",
    )


def long_worker() -> tuple[Child, Ready]:
    """The Celery worker of background jobs, such as checks of uploads, and of batches."""
    processes = str(LONG_CONCURRENCY)
    return _celery(
        "long worker",
        *("worker", "--queues", "long", "--concurrency", processes, "--hostname", "long@%h", *_QUIET),
        nice=TRAINING_NICENESS,
        OMP_NUM_THREADS="1",
    )


def beat() -> tuple[Child, Ready]:
    """Celery beat. The schedule is in the settings, so it needs no schedule file."""
    return _celery("beat", "beat", "--scheduler", "celery.beat:Scheduler")


def web(port: Port) -> tuple[Child, Ready]:
    """The web server: one process with many threads."""
    host = f"[{port.address}]" if ":" in port.address else port.address
    threads = str(settings.HMI_WEB_THREADS)
    ready_file = _ready_file("web")
    child = _python(
        "web",
        [
            *("-m", "hmi_site.launcher.web_server", "--interface", "asgi", "--no-ws"),
            *("--host", port.address, "--port", str(port.number)),
            *("--http", "1"),  # an HTTP/2 connection could have many slow readers
            *("--backpressure", str(_max_connections())),
            *("--log-config", str(_log_config_file())),
            *("--workers-kill-timeout", str(WEB_STOP_S), "hmi_site.asgi:application"),
        ],
        HMI_PORT=str(port.number),
        HMI_WEB_THREADS=threads,
        **MALLOC_ENV,
        **{LISTENER_FD: str(port.listener.fileno()), READY_FILE: str(ready_file)},
    )
    child.pass_fds = [port.listener.fileno()]
    child.stop_timeout_s = WEB_STOP_S + 5
    # The file first: a health check would time out before the server accepts connections.
    return child, lambda: ready_file.exists() and _responds(f"http://{host}:{port.number}/health/live")


def _max_connections() -> int:
    """The maximum of open connections, idle ones included: half of the open files that are allowed."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MAX_CONNECTIONS if files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, files // 2)
    return max(allowed, settings.HMI_WEB_THREADS + settings.HMI_LIVE_STREAMS)


def _log_config_file() -> Path:
    """Write the log settings to a file for granian's main process, which does not load Django."""
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
    child.stop_timeout_s = 30.0  # a running job requeues itself at its next heartbeat
    return child, ready_file.exists


def _ready_file(name: str) -> Path:
    """The path of a ready file. A stale file is removed."""
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
            **PASSIVE_THREADS,
            **{name: value for name, value in os.environ.items() if name not in HUB_TOKENS},
            **{path: str(getattr(settings, path)) for path in paths},
            "DJANGO_SETTINGS_MODULE": "hmi_site.settings",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(base), os.environ.get("PYTHONPATH")])),
            "PYTHONUNBUFFERED": "1",
            SUPERVISOR_PID: str(os.getpid()),
            **env,
        },
    )


def _is_worker_started(name: str) -> bool:
    """Whether it serves, or goes on trying to load its roots: starting it anew would not help."""
    try:
        return any(worker.name == name for worker in started_workers())
    except redis.RedisError:
        return False


def _responds(url: str) -> bool:
    """Whether the URL returns a success status."""
    try:
        return httpx.get(url, timeout=3.0, trust_env=False, verify=_EMPTY_SSL_CONTEXT).is_success
    except httpx.HTTPError:
        return False


CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus() -> int:
    """The number of CPUs that this process may use, limited by the container's quota."""
    cpus = len(os.sched_getaffinity(0))
    try:
        quota, period = CGROUP_QUOTA.read_text(encoding="ascii").split()
        return max(1, min(cpus, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or "max"
        return cpus


def training_threads(configured: int) -> int:
    """The configured number of threads, or one per CPU but one. With one or two CPUs, one per CPU."""
    cpus = usable_cpus()
    return configured or (cpus if cpus <= 2 else cpus - 1)

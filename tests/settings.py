"""Settings of a test run: the product's own, in a throwaway home, deaf to the person's environment."""

import atexit
import fcntl
import os
import shutil
import sys
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
HOME_BYTES, FILES_BYTES = 512 * 1024**2, 4 * 1024**3
"""What services of a run take at most, and what the files of its tests do."""
HOME_PREFIX = "hmi-tests-"
LOCK = "lock"
KEPT = frozenset(
    {
        "HMI_POSTGRES_BIN",
        "HMI_REDIS_BIN",
        "HMI_DEVICE",
        "HMI_BENCH_DIR",
        "HMI_TEST_HOME",
        "HMI_TEST_HOME_OF",
        "HMI_CHROMIUM",
        "HMI_SCREENSHOTS",
        "HMI_JOURNEYS",
        "HMI_FUZZ_CASES",
    }
)


def home_base(needed: int = HOME_BYTES) -> Path:
    """Memory where there are so many bytes of it, else the disk; both have short names, as sockets need."""
    roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > needed
    return MEMORY if roomy else Path("/tmp")


def make_home() -> Path:
    """A private folder that is removed when this process ends, or by a later run if it is killed."""
    remove_abandoned_homes()
    made = Path(tempfile.mkdtemp(prefix=HOME_PREFIX, dir=home_base()))
    fcntl.flock(os.open(made / LOCK, os.O_CREAT | os.O_RDWR, 0o600), fcntl.LOCK_EX)  # until this process ends
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def remove_abandoned_homes() -> None:
    """Remove the homes whose lock nobody holds."""
    for folder in home_base().glob(f"{HOME_PREFIX}*"):
        try:
            with (folder / LOCK).open("r") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


for name in [name for name in os.environ if name.startswith("HMI_") and name not in KEPT]:
    del os.environ[name]
for name in ("DATABASE_URL", "REDIS_URL"):
    os.environ.pop(name, None)
# Without compiled modules, each process of a run compiles all that it imports, and pytest rewrites all tests.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Tiny models lose more to the handing out of work than they gain from it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Threads that wait for each other would spin. With more of them than processors, that takes from the others.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if os.environ.get("HMI_TEST_HOME_OF") == worker:  # a process that a test started
    home = Path(os.environ["HMI_TEST_HOME"])
else:
    home = make_home()
    os.environ.update(HMI_TEST_HOME=str(home), HMI_TEST_HOME_OF=worker)
os.environ["HMI_HOME"] = str(home)
os.environ["HMI_RUNTIME_DIR"] = str(home / "run")
os.environ["HMI_SECRET_KEY"] = "only for tests"
# Threads that check answers would write to the database after the test. Those of the checks turn it on.
os.environ["HMI_CHECK_SHARE"] = "0"
# Where `tmp_path` lies. What is stored is synced to its disk, which would be most of what many tests take.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(home_base(FILES_BYTES)))

from hmi_site.settings import *  # noqa: E402, F403

INSTALLED_APPS += ["tests.flushing"]  # noqa: F405
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CELERY_BROKER_TRANSPORT_OPTIONS = {"max_retries": 1}
# Else each client of a test looks for all static files first.
WHITENOISE_AUTOREFRESH = True
# Beside other tests that keep all processors busy, a process of low priority would hardly begin.
HMI_ARTIFACT_CHECK_NICENESS = 0
# Tests see at once what they change; those of the caches say for how long it is remembered.
HMI_KEY_CACHE_S = HMI_MODEL_CACHE_S = HMI_USAGE_INTERVAL_S = 0.0

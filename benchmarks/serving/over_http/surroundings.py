"""The environment that a benchmark's own product is started in."""

import os
from pathlib import Path
from typing import Final

from benchmarks.serving.over_http.clients import TIMEOUT_S
from benchmarks.serving.over_http.engine import POLICY

KEPT: Final = ("HMI_BENCH_DIR", "HMI_POSTGRES_BIN", "HMI_REDIS_BIN", "HMI_WEIGHTS")
OURS: Final = ("HMI_", "DATABASE_URL", "REDIS_URL", "DJANGO_")


def surround(home: Path, rows: int | None) -> None:
    """Let nothing of this installation's own environment but KEPT into the product that is started. ``rows``:
    of a batch at most, with tables that answer all fragments; None: as the product does by default."""
    for name in [name for name in os.environ if name.startswith(OURS) and name not in KEPT]:
        del os.environ[name]
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "hmi_site.settings",
        "HMI_HOME": str(home / "home"),
        "HMI_CORPUS_MIN_WORDS": "0",
    }
    if rows is not None:
        os.environ |= {
            "HMI_POLICY": POLICY.value,
            "HMI_BATCH_ROWS": str(rows),
            "HMI_INFER_DEADLINE_S": str(TIMEOUT_S),  # the calls of a large encoder wait for one another
        }

"""The settings of the inference worker, read from the environment."""

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inference.engine.batcher import BatchLimits
from inference.logs import shown_setting
from inference.serving.loop_timing import LoopTiming

MIB = 1024**2
BATCH_TOKENS = 8192
BACKLOG_BATCHES = 16
"""The next batch is chosen from so many batches of rows, so that one tenant's flood does not hide others."""


class SettingError(Exception):
    """An environment variable is missing or makes no sense."""


def _new_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """name: differs from every other living worker's. roots: names or digests of the roots that are served,
    none for all. pool_bytes: of the PET pool, on the host; None: a quarter of its memory. kv_cache_bytes: of
    the keys and values of each decoder, on the device; None: a sixteenth. device_bytes: of the device, for
    everything; 0: what is free. life_s: how long a heartbeat lasts; a worker without one counts as dead.
    stuck_s: how long one turn of the loop may take before the process ends itself: longer than any batch."""

    redis_url: str = field(repr=False)
    artifact_root: Path
    roots: frozenset[str]
    device: str
    dtype: str
    limits: BatchLimits
    timing: LoopTiming
    pool_bytes: int | None
    lower_bytes: int
    kv_cache_bytes: int | None
    device_bytes: int
    name: str = field(default_factory=_new_name)
    life_s: float = 5.0
    stuck_s: float = 120.0

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ, **own: Any) -> "WorkerSettings":
        """``own``: the fields that are not variables, if not the defaults. Raises SettingError."""
        read = _Reader(env)
        limits = BatchLimits(rows=read.number("HMI_BATCH_ROWS", 32, least=1), tokens=BATCH_TOKENS)
        return cls(
            redis_url=read.needed("REDIS_URL"),
            artifact_root=Path(read.needed("HMI_ARTIFACT_ROOT")),
            roots=frozenset(filter(None, map(str.strip, env.get("HMI_ROOTS", "").split(",")))),
            device=env.get("HMI_DEVICE") or "auto",
            dtype=env.get("HMI_DTYPE") or "auto",
            limits=limits,
            timing=LoopTiming(backlog_rows=BACKLOG_BATCHES * limits.rows),
            pool_bytes=read.number("HMI_MODEL_CACHE_MB", 0, least=1) * MIB or None,
            lower_bytes=read.number("HMI_LOWER_CACHE_MB", 2048, least=0) * MIB,
            kv_cache_bytes=read.number("HMI_KV_CACHE_MB", 0, least=1) * MIB or None,
            device_bytes=read.number("HMI_DEVICE_MB", 0, least=0) * MIB,
            **own,
        )


class _Reader:
    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def needed(self, name: str) -> str:
        value = self._env.get(name, "").strip()
        if not value:
            raise SettingError(f"{name} is not set")
        return value

    def number(self, name: str, default: int, *, least: int) -> int:
        text = self._env.get(name, "").strip()
        if not text:
            return default
        try:
            value = int(text)
        except ValueError:
            raise SettingError(f"{name}={shown_setting(text)} is not a number") from None
        if not least <= value < 1e12:
            raise SettingError(f"{name}={shown_setting(text)} must be at least {least}")
        return value

"""A file cache of benchmark results, by the settings they depend on.

A benchmark of many trainings may be stopped and started again: finished results are not recomputed.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent


def bench_dir() -> Path:
    """The folder of cached roots, tables and results: HMI_BENCH_DIR, or ``var/benchmarks``."""
    folder = Path(os.environ.get("HMI_BENCH_DIR") or ROOT / "var" / "benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cache_folder(kind: str, key: dict[str, Any]) -> Path:
    """The folder for files of this key; its parent exists, it itself may not."""
    folder = bench_dir() / kind
    folder.mkdir(exist_ok=True)
    return folder / fingerprint(key)


class ResultCache:
    """The results of one benchmark."""

    def __init__(self, name: str, console: "Console") -> None:
        self._folder = bench_dir() / "runs" / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._console = console

    def get(self, key: dict[str, Any]) -> dict[str, Any] | None:
        """The cached result for this key, or None."""
        file = self._file(key)
        if not file.is_file():
            return None
        cached: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["result"]
        return cached

    def get_or_compute(self, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result for this key: the cached one, or that of ``compute``."""
        cached = self.get(key)
        if cached is not None:
            return cached
        self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {describe(key)}", highlight=False)
        started, cpu = time.perf_counter(), time.process_time()
        result = compute()
        result["seconds"] = round(time.perf_counter() - started, 1)
        result["cpu_seconds"] = round(time.process_time() - cpu, 1)
        file = self._file(key)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps({"key": key, "result": result}, indent=1), encoding="utf-8")
        partial.replace(file)
        return result

    def _file(self, key: dict[str, Any]) -> Path:
        return self._folder / f"{fingerprint(key)}.json"


def fingerprint(key: dict[str, Any]) -> str:
    """A short name for a key; the same for the same content."""
    text = json.dumps(key, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def describe(key: dict[str, Any]) -> str:
    """A key in one line: its simple values, and the names of nested ones."""
    plain = {name: value.get("name", "") if isinstance(value, dict) else value for name, value in key.items()}
    return " ".join(f"{name}={value}" for name, value in plain.items() if value not in ("", None))

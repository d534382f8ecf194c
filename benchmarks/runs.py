"""Runs that are made once: each is kept in a file under the name of everything it depends on.

A benchmark of many trainings may be stopped and started again; it goes on with the first run not yet made.
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
    """Where benchmarks keep roots, tables and runs: HMI_BENCH_DIR, or ``var/benchmarks``."""
    folder = Path(os.environ.get("HMI_BENCH_DIR") or ROOT / "var" / "benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def made_folder(kind: str, key: dict[str, Any]) -> Path:
    """Where what is made for this key lies, or will lie once it is made: the folder above it is there."""
    folder = bench_dir() / kind
    folder.mkdir(exist_ok=True)
    return folder / fingerprint(key)


class Runs:
    """The runs of one benchmark."""

    def __init__(self, name: str, console: "Console") -> None:
        self._folder = bench_dir() / "runs" / name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._console = console

    def once(self, key: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``compute`` gave for this key: now, or when it was run before."""
        file = self._folder / f"{fingerprint(key)}.json"
        if file.is_file():
            kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["result"]
            return kept
        self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {describe(key)}", highlight=False)
        started, cpu = time.perf_counter(), time.process_time()
        result = compute()
        result["seconds"] = round(time.perf_counter() - started, 1)
        result["cpu_seconds"] = round(time.process_time() - cpu, 1)
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps({"key": key, "result": result}, indent=1), encoding="utf-8")
        partial.replace(file)
        return result


def fingerprint(key: dict[str, Any]) -> str:
    """A short name for a key; the same for the same content."""
    text = json.dumps(key, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def describe(key: dict[str, Any]) -> str:
    """The plain parts of a key, and the names of the others, in one line."""
    plain = {name: value.get("name", "") if isinstance(value, dict) else value for name, value in key.items()}
    return " ".join(f"{name}={value}" for name, value in plain.items() if value != "")

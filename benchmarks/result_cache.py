"""Results that are kept: cells of benchmarks that take hours, a line each in a file of `benchmarks/results`.

A benchmark of many trainings may be stopped and started again: finished cells are not computed again. The
files are committed, so that `--committed` can report them anywhere.
"""

import argparse
import ast
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import harness

if TYPE_CHECKING:
    from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
DISTINGUISHING = ("dataset", "method", "cut", "domain", "settings", "learning_rate", "seed", "size", "tenant")
"""Nested settings that differ between the cells of a run."""
Value = dict[str, Any]


def bench_dir() -> Path:
    """The folder of roots, tables and models: HMI_BENCH_DIR, or ``var/benchmarks``."""
    folder = Path(os.environ.get("HMI_BENCH_DIR") or ROOT / "var" / "benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cache_folder(kind: str, key: dict[str, Any]) -> Path:
    """The folder for files of this key; its parent exists, it itself may not."""
    folder = bench_dir() / kind
    folder.mkdir(exist_ok=True)
    return folder / fingerprint(key)


def add_committed(parser: argparse.ArgumentParser) -> None:
    """The option `--committed`, for benchmarks that keep their results."""
    parser.add_argument(
        "--committed",
        action="store_true",
        help="compute nothing: report the results that are kept, and list what is missing",
    )


class ResultMissing(Exception):
    """With `--committed`: a result that is not kept is needed. The message names its settings."""


class KeptResults:
    """The cells of one benchmark, by the settings they depend on.

    code: files and folders, relative to the checkout, whose change makes a cell old. quick: of a quick run;
    its cells are not committed. committed: nothing is computed. `missing` and `old` describe the cells that
    were asked for and are not there, or are of other code.
    """

    def __init__(
        self,
        name: str,
        console: "Console",
        *,
        code: Sequence[str] = (),
        quick: bool = False,
        committed: bool = False,
    ) -> None:
        self._file = (bench_dir() / "quick" if quick else RESULTS) / f"{name}.jsonl"
        self._console, self._code, self._committed = console, tuple(code), committed
        self._cells = {fingerprint(cell["settings"]): cell for cell in _read(self._file)}
        self.missing: dict[str, str] = {}
        self.old: dict[str, str] = {}

    def get(self, key: dict[str, Any], *, same_machine: bool = False) -> Value | None:
        """The kept value for this key, or None. same_machine: one of another machine counts only with
        `--committed`."""
        name = fingerprint(key)
        cell = self._cells.get(name)
        usable = cell is not None and (
            self._committed or not same_machine or cell["machine"] == harness.machine()
        )
        if cell is None or not usable:
            self.missing[name] = describe(key)
            return None
        if cell["code"] != code_digest(self._code):
            self.old[name] = f"{describe(key)} (commit {cell['commit']}, {cell['date'][:10]})"
        value: Value = cell["value"]
        return value

    def get_or_compute(
        self, key: dict[str, Any], compute: Callable[[], Value], *, same_machine: bool = False
    ) -> Value:
        """The value for this key: the kept one, or that of `compute`, which is kept from now on.

        Raises ResultMissing with `--committed` if it is not kept.
        """
        kept = self.get(key, same_machine=same_machine)
        if kept is not None:
            return kept
        if self._committed:
            raise ResultMissing(describe(key))
        self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {describe(key)}", highlight=False)
        started, cpu = time.perf_counter(), time.process_time()
        value = compute()
        value["seconds"] = round(time.perf_counter() - started, 1)
        value["cpu_seconds"] = round(time.process_time() - cpu, 1)
        self._keep(key, value)
        return value

    def get_or_compute_unless_committed(
        self, key: dict[str, Any], compute: Callable[[], Value], *, same_machine: bool = False
    ) -> Value | None:
        """As `get_or_compute`; None with `--committed` if it is not kept."""
        try:
            return self.get_or_compute(key, compute, same_machine=same_machine)
        except ResultMissing:
            return None

    def _keep(self, key: dict[str, Any], value: Value) -> None:
        cell = {
            "settings": key,
            "value": value,
            "commit": harness.commit(),
            "machine": harness.machine(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "code": code_digest(self._code),
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(cell, sort_keys=True) + "\n")
        name = fingerprint(key)
        self._cells[name] = cell
        self.missing.pop(name, None)


def report_kept(console: "Console", *results: KeptResults) -> dict[str, list[str]]:
    """Print the missing and the old cells that were asked for; returns them, for the report's settings."""
    found = {
        "missing": [cell for one in results for cell in one.missing.values()],
        "old": [cell for one in results for cell in one.old.values()],
    }
    for title, cells in found.items():
        if cells:
            explained = "missing" if title == "missing" else "of code that has changed since"
            console.print(f"\n{len(cells)} results are {explained}:", highlight=False)
            console.print("\n".join(f"- {cell}" for cell in cells), markup=False, highlight=False)
    return found


@cache
def code_digest(code: tuple[str, ...]) -> str:
    """A short name for the Python code of these files and folders; comments and layout do not count."""
    total = hashlib.sha256()
    for name in code:
        path = ROOT / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            total.update(f"{file.relative_to(ROOT)}\n{ast.dump(tree)}\n".encode())
    return total.hexdigest()[:20]


def fingerprint(key: dict[str, Any]) -> str:
    """A short name for a key; the same for the same content."""
    text = json.dumps(key, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def describe(key: dict[str, Any]) -> str:
    """A key in one line: its simple values, and of nested settings what tells cells apart."""
    parts = []
    for name, value in key.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = value[0]  # of several seeds, the first
        if isinstance(value, dict):
            told = describe({inner: value[inner] for inner in DISTINGUISHING if inner in value})
            parts += [f"{name}=({told})"] if told else []
        elif value not in ("", None):
            parts.append(f"{name}={value}")
    return " ".join(parts)


def _read(file: Path) -> list[dict[str, Any]]:
    """The cells of a file; none if it is not there. Raises SystemExit for a line that is no JSON."""
    if not file.is_file():
        return []
    cells = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            cells.append(json.loads(line))
        except ValueError as error:
            raise SystemExit(f"{file}, line {number} is no JSON. Delete the line.") from error
    return cells

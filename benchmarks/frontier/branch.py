"""The root and the tables that all models of the benchmark are trained and served on."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.accuracy.data import GENERAL, Dataset
from benchmarks.accuracy.workbench import Workbench
from benchmarks.result_cache import fingerprint

ALPHA: Final = 50.0
QUICK_TOKENS: Final = 100_000
"""Of a quick run's conversion."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Folders of the artifacts. tables: by domain, nearest first, the root's last. key: of their content."""

    root: Path
    lower: Path
    tables: Mapping[str, Sequence[Path]]
    key: str


def stored_branch(root: Path, lower: Path, table: Path, datasets: Sequence[Dataset]) -> Branch:
    """Artifacts that are there already; all domains have this one table."""
    files = [file for folder in (root, lower) for file in sorted(folder.iterdir())]
    tables = {dataset.domain: (table,) for dataset in datasets}
    return Branch(root, lower, tables, digest([*files, table / "plot.json"]))


def demo_branch(bench: Workbench, datasets: Sequence[Dataset], *, quick: bool) -> Branch:
    """The demo root with a table of ALPHA of the general corpus, and one of each dataset's domain before it;
    built unless an earlier run has cached them."""
    converted = bench.convert(**({"distil_tokens": QUICK_TOKENS} if quick else {}))
    general = bench.table(converted, GENERAL, ALPHA)
    tables = {
        domain: (general,)
        if domain == GENERAL
        else (bench.table(converted, domain, ALPHA, all_unigrams=False), general)
        for domain in {dataset.domain for dataset in datasets}
    }
    names = {domain: [folder.name for folder in folders] for domain, folders in tables.items()}
    return Branch(
        converted.root, converted.lower, tables, fingerprint({"root": converted.key, "tables": names})
    )


def digest(files: Iterable[Path]) -> str:
    """A short name for the content of these files."""
    total = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:20]

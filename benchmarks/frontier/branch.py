"""The root and the tables that all models of the benchmark are trained and served on."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.accuracy.data import Dataset
from benchmarks.accuracy.trainings import Shape
from benchmarks.accuracy.workbench import Workbench
from benchmarks.result_cache import fingerprint


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


def trained_branch(bench: Workbench, shape: Shape, datasets: Sequence[Dataset]) -> Branch:
    """What the trainings of the workbench read; built unless an earlier run has cached it."""
    converted = bench.root(shape)
    tables = {dataset.domain: bench.tables(converted, dataset) for dataset in datasets}
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

"""A dataset from the files of its splits: checked, counted, split where needed, written in canonical form."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.census import Census
from tenants.datasets.formats.check import DEFAULT_SEPARATOR, RowChecker, checked_separator
from tenants.datasets.formats.conll import read_conll
from tenants.datasets.formats.examples import Example, read_examples
from tenants.datasets.formats.failures import RowFaults, bad_file, brought_by
from tenants.datasets.formats.jsonl import read_jsonl
from tenants.datasets.formats.lines import Source, fingerprint, read_lines
from tenants.datasets.formats.rows import Names, RawRow, Refused, column_names, refuse_at_once
from tenants.datasets.formats.splits import LEAK_LIMIT, carve, leakage, refuse_leakage
from tenants.datasets.formats.table import read_table

SPLITS = ("train", "dev", "test")
FEWEST_ROWS = 10
MOST_ROWS = 1_000_000
MOST_LABELS = 1000
PREVIEW_ROWS = 5

LABELS_OF_TASK: dict[str, tuple[str, ...]] = {
    "regression": ("value",),
    "question_answering": ("start", "end"),
}
"""What a task has in place of labels from its rows: the names of what its head says."""


@dataclass(slots=True)
class DatasetDraft:
    """A dataset that was checked and written to a workspace, but not yet stored."""

    task: str
    formats: dict[str, str] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    censuses: dict[str, Census] = field(default_factory=dict)
    preview: dict[str, list[Example]] = field(default_factory=dict)
    automatic: list[str] = field(default_factory=list)
    leaks: list[dict[str, Any]] = field(default_factory=list)
    leaks_allowed: bool = False
    pairs: bool = False

    @property
    def labels(self) -> list[str]:
        """The labels of all splits (the kinds of span, for tagging), sorted; or what else is said."""
        if self.task in LABELS_OF_TASK:
            return list(LABELS_OF_TASK[self.task])
        return sorted(set().union(*(census.labels for census in self.censuses.values())))

    @property
    def rows(self) -> int:
        """The rows of all splits."""
        return sum(census.rows for census in self.censuses.values())


def draft_dataset(
    *,
    files: Mapping[str, Source],
    task: str,
    columns: Mapping[str, str] | None,
    workspace: Path,
    separator: str = DEFAULT_SEPARATOR,
    allow_leaks: bool = False,
) -> DatasetDraft:
    """Read the files of the splits (``train``, and perhaps ``dev`` and ``test``) and write canonical ones.

    A split that is not given is taken from train. ``separator`` parts the labels of a cell. With
    ``allow_leaks`` splits that share more texts than the limit are taken, and the draft says so. Raises a
    typed error that names file, row and field.
    """
    names = column_names(task, columns)
    _refuse_splits(files)
    draft = DatasetDraft(task=task)
    checker = RowChecker(task, checked_separator(separator))
    for split in (split for split in SPLITS if split in files):
        with brought_by(split):
            _read_split(draft, split, files[split], names, checker, workspace)
    _refuse_few(draft)
    draft.pairs = draft.censuses["train"].pairs
    draft.leaks = leakage(draft.censuses)
    if not allow_leaks:
        refuse_leakage(draft.leaks)
    draft.leaks_allowed = any(leak["share"] > LEAK_LIMIT for leak in draft.leaks)
    draft.automatic = [split for split in SPLITS if split not in files]
    if draft.automatic:
        _carve(draft, workspace)
    return draft


def read_rows(
    source: Source, task: str, names: Names, refused: Refused = refuse_at_once
) -> tuple[str, Iterator[RawRow]]:
    """The format of the file and its rows."""
    kind = format_of(source, task)
    if kind == "conll":
        return kind, read_conll(source, names)
    read = read_jsonl if kind == "jsonl" else read_table
    return kind, read(source, names, refused)


def format_of(source: Source, task: str) -> str:
    """``jsonl``, ``csv``, ``tsv`` or ``conll``: by the file's name, and else by its first characters."""
    suffix = Path(source.name).suffix.lower()
    if suffix in {".jsonl", ".ndjson", ".json"}:
        return "jsonl"
    if suffix in {".csv", ".tsv"}:
        return suffix[1:]
    first = next((line.text for line in read_lines(source) if line.text.strip()), "")
    if first.lstrip().startswith("{"):
        return "jsonl"
    return "conll" if task == "tagging" else "csv"


def _refuse_splits(files: Mapping[str, Source]) -> None:
    unknown = sorted(set(files) - set(SPLITS))
    if unknown:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"A split is one of {', '.join(SPLITS)}; not {', '.join(map(repr, unknown))}.",
            param="files",
        )
    if "train" not in files:
        raise HmiError(ErrorCode.MISSING_FIELD, "A dataset needs a file of the split train.", param="train")


def _read_split(
    draft: DatasetDraft,
    split: str,
    source: Source,
    names: Names,
    checker: RowChecker,
    workspace: Path,
) -> None:
    if source.path.stat().st_size == 0 or not any(line.text.strip() for line in read_lines(source)):
        raise bad_file(ErrorCode.EMPTY_FILE, "the file is empty.", file=source.name)
    faults = RowFaults(source.name)
    draft.formats[split], rows = read_rows(source, draft.task, names, faults.add)
    census = draft.censuses[split] = Census()
    preview = draft.preview[split] = []
    path = draft.paths[split] = workspace / f"{split}.jsonl"
    with path.open("x", encoding="utf-8", newline="\n") as canonical:
        for raw in rows:
            with faults.noted(raw.row, raw.fields):
                example = checker.example(raw, source.name)
            if faults.found:
                continue
            census.add(example)
            _refuse_many(census, source.name, raw.row)
            if len(preview) < PREVIEW_ROWS:
                preview.append(example)
            canonical.write(example.to_line())
    faults.tell()
    if not census.rows:
        raise bad_file(ErrorCode.TOO_FEW_ROWS, "there is no row below the header.", file=source.name, rows=0)


def _refuse_many(census: Census, file: str, row: int) -> None:
    if census.rows > MOST_ROWS:
        raise bad_file(
            ErrorCode.FILE_TOO_LARGE, f"more than {MOST_ROWS:,} rows.", file=file, row=row, limit=MOST_ROWS
        )
    if len(census.labels) > MOST_LABELS:
        raise bad_file(
            ErrorCode.INVALID_FIELD,
            f"more than {MOST_LABELS:,} different labels. Is this the column of the labels?",
            file=file,
            row=row,
            field="label",
            limit=MOST_LABELS,
        )


def _refuse_few(draft: DatasetDraft) -> None:
    if draft.rows < FEWEST_ROWS:
        raise HmiError(
            ErrorCode.TOO_FEW_ROWS,
            f"{draft.rows} rows are too few; a dataset has at least {FEWEST_ROWS}.",
            param="files",
            details={"rows": draft.rows, "needed": FEWEST_ROWS},
        )
    _refuse_nothing_to_learn(draft.task, draft.censuses["train"])


def _refuse_nothing_to_learn(task: str, train: Census) -> None:
    labels, values = train.labels, train.values
    why = {
        "multilabel": "No row of train has a label: nothing to learn." if not labels else "",
        "tagging": "Every tag of train is O: nothing to learn." if not labels else "",
        "regression": "All rows of train have the same value." if len(set(values)) == 1 else "",
        "question_answering": "No question of train is answered." if not train.answer_words.count else "",
    }.get(task)
    if why:
        raise HmiError(ErrorCode.ONE_LABEL, why, param="train")
    if task == "classification" and len(labels) == 1:
        only = next(iter(labels))
        raise HmiError(
            ErrorCode.ONE_LABEL,
            f"All rows of train have the label {only!r}; there must be at least two labels.",
            param="train",
            details={"label": only, "rows": labels[only]},
        )


def _carve(draft: DatasetDraft, workspace: Path) -> None:
    """Part train into itself and the splits that were not given."""
    given = draft.censuses["train"]
    chosen = carve(given, draft.automatic)
    whole = draft.paths["train"].rename(workspace / "whole.jsonl")
    parts = ("train", *draft.automatic)
    draft.paths |= {split: workspace / f"{split}.jsonl" for split in parts}
    draft.censuses |= {split: Census() for split in parts}
    with ExitStack() as stack:
        files = {
            split: stack.enter_context(draft.paths[split].open("x", encoding="utf-8", newline="\n"))
            for split in parts
        }
        for example in read_examples(whole):
            split = chosen.get(fingerprint(*example.texts), "train")
            draft.censuses[split].add(example)
            files[split].write(example.to_line())
    whole.unlink()

"""Reads the files of a dataset: checks rows, counts, splits if needed, writes canonical files."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.errors import RowErrors, file_error, report_errors_at
from tenants.datasets.formats.examples import Example, read_examples
from tenants.datasets.formats.lines import Source, fingerprint
from tenants.datasets.formats.readers import head_lines, read_rows
from tenants.datasets.formats.row_parser import DEFAULT_SEPARATOR, RowParser, clean_separator
from tenants.datasets.formats.rows import ColumnMapping, column_mapping
from tenants.datasets.formats.splits import LEAK_LIMIT, auto_split, check_leaks, find_leaks
from tenants.datasets.formats.statistics import SplitStatistics

SPLITS = ("train", "dev", "test")
MIN_ROWS = 10
MAX_ROWS = 1_000_000
MAX_LABELS = 1000
PREVIEW_ROWS = 5

LABELS_OF_TASK: dict[str, tuple[str, ...]] = {
    "regression": ("value",),
    "question_answering": ("start", "end"),
    "generation": ("text",),
    "chat": ("text",),
}
"""Tasks whose labels are fixed: the names of the head's outputs."""


@dataclass(slots=True)
class DatasetDraft:
    """A dataset that was checked and written to a workspace, but is not stored yet. Keys are splits.

    ``skipped`` counts the invalid rows that were left out.
    """

    task: str
    formats: dict[str, str] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    statistics: dict[str, SplitStatistics] = field(default_factory=dict)
    preview: dict[str, list[Example]] = field(default_factory=dict)
    automatic: list[str] = field(default_factory=list)
    leaks: list[dict[str, Any]] = field(default_factory=list)
    leaks_allowed: bool = False
    skipped: dict[str, int] = field(default_factory=dict)
    pairs: bool = False

    @property
    def labels(self) -> list[str]:
        """The labels of all splits, sorted: kinds of span for tagging, ``LABELS_OF_TASK`` for other tasks."""
        if self.task in LABELS_OF_TASK:
            return list(LABELS_OF_TASK[self.task])
        return sorted(set().union(*(stats.labels for stats in self.statistics.values())))

    @property
    def rows(self) -> int:
        """The number of rows of all splits."""
        return sum(stats.rows for stats in self.statistics.values())


class DatasetOptions(TypedDict, total=False):
    """How ``draft_dataset`` reads the files of a dataset."""

    columns: Mapping[str, str] | None
    separator: str
    allow_leaks: bool
    skip_invalid_rows: bool


def draft_dataset(
    *,
    files: Mapping[str, Source],
    task: str,
    workspace: Path,
    columns: Mapping[str, str] | None = None,
    separator: str = DEFAULT_SEPARATOR,
    allow_leaks: bool = False,
    skip_invalid_rows: bool = False,
) -> DatasetDraft:
    """Read the files of the splits (``train``, optionally ``dev`` and ``test``) and write canonical ones.

    Missing splits are taken from train. ``separator`` separates the labels in a cell. ``allow_leaks``
    accepts splits that overlap more than the limit. ``skip_invalid_rows`` leaves out rows that are invalid;
    the rows of the dataset are then numbered without them. Raises a typed error that names file, row and
    field.
    """
    mapping = column_mapping(task, columns)
    _check_splits(files)
    draft = DatasetDraft(task=task)
    parser = RowParser(task, clean_separator(separator))
    for split in (split for split in SPLITS if split in files):
        with report_errors_at(split):
            errors = _read_split(draft, split, files[split], mapping, parser, workspace)
            if not skip_invalid_rows:
                errors.raise_if_any()
            _check_rows_left(draft.statistics[split], errors)
            if errors.count:
                draft.skipped[split] = errors.count
    _check_learnable(draft)
    draft.pairs = draft.statistics["train"].pairs
    draft.leaks = find_leaks(draft.statistics)
    if not allow_leaks:
        check_leaks(draft.leaks)
    draft.leaks_allowed = any(leak["share"] > LEAK_LIMIT for leak in draft.leaks)
    draft.automatic = [split for split in SPLITS if split not in files]
    if draft.automatic:
        _split_train(draft, workspace)
    return draft


def _check_splits(files: Mapping[str, Source]) -> None:
    unknown = sorted(set(files) - set(SPLITS))
    if unknown:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"Unknown split: {', '.join(map(repr, unknown))}. Splits are {', '.join(SPLITS)}.",
            param="files",
        )
    if "train" not in files:
        raise HmiError(ErrorCode.MISSING_FIELD, "The file of the split train is missing.", param="train")


def _read_split(
    draft: DatasetDraft,
    split: str,
    source: Source,
    columns: ColumnMapping,
    parser: RowParser,
    workspace: Path,
) -> RowErrors:
    """Write the valid rows of a split; return the errors of the others."""
    if not head_lines(source):
        raise file_error(ErrorCode.EMPTY_FILE, "the file is empty.", file=source.name)
    errors = RowErrors(source.name)
    draft.formats[split], rows = read_rows(source, draft.task, columns, errors.add)
    stats = draft.statistics[split] = SplitStatistics()
    preview = draft.preview[split] = []
    path = draft.paths[split] = workspace / f"{split}.jsonl"
    with path.open("x", encoding="utf-8", newline="\n") as canonical:
        for raw in rows:
            before = errors.count
            with errors.collect(raw.row, raw.fields):
                example = parser.parse(raw, source.name)
            if errors.count > before:
                continue
            stats.add(example)
            _check_limits(stats, source.name, raw.row)
            if len(preview) < PREVIEW_ROWS:
                preview.append(example)
            canonical.write(example.to_line())
    return errors


def _check_rows_left(stats: SplitStatistics, errors: RowErrors) -> None:
    """``too_few_rows`` unless there is a valid row."""
    if not stats.rows:
        what = "no row is valid." if errors.count else "there is no row below the header."
        raise file_error(ErrorCode.TOO_FEW_ROWS, what, file=errors.file, rows=0)


def _check_limits(stats: SplitStatistics, file: str, row: int) -> None:
    if stats.rows > MAX_ROWS:
        raise file_error(
            ErrorCode.FILE_TOO_LARGE, f"more than {MAX_ROWS:,} rows.", file=file, row=row, limit=MAX_ROWS
        )
    if len(stats.labels) > MAX_LABELS:
        raise file_error(
            ErrorCode.INVALID_FIELD,
            f"more than {MAX_LABELS:,} different labels. Is this the column with the labels?",
            file=file,
            row=row,
            field="label",
            limit=MAX_LABELS,
        )


def _check_learnable(draft: DatasetDraft) -> None:
    """``too_few_rows``, or ``one_label`` if there is nothing to learn from train."""
    if draft.rows < MIN_ROWS:
        raise HmiError(
            ErrorCode.TOO_FEW_ROWS,
            f"The dataset has {draft.rows} rows; at least {MIN_ROWS} are needed.",
            param="files",
            details={"rows": draft.rows, "needed": MIN_ROWS},
        )
    train = draft.statistics["train"]
    labels, values = train.labels, train.values
    message = {
        "multilabel": "No row of train has a label: nothing to learn." if not labels else "",
        "tagging": "Every tag of train is O: nothing to learn." if not labels else "",
        "regression": "All rows of train have the same value." if len(set(values)) == 1 else "",
        "question_answering": "No question of train is answered." if not train.answer_words.count else "",
    }.get(draft.task)
    if message:
        raise HmiError(ErrorCode.ONE_LABEL, message, param="train")
    if draft.task == "classification" and len(labels) == 1:
        only = next(iter(labels))
        raise HmiError(
            ErrorCode.ONE_LABEL,
            f"All rows of train have the label {only!r}; at least two labels are needed.",
            param="train",
            details={"label": only, "rows": labels[only]},
        )


def _split_train(draft: DatasetDraft, workspace: Path) -> None:
    """Take the splits that were not given from train."""
    split_of = auto_split(draft.statistics["train"], draft.automatic)
    whole = draft.paths["train"].rename(workspace / "whole.jsonl")
    splits = ("train", *draft.automatic)
    draft.paths |= {split: workspace / f"{split}.jsonl" for split in splits}
    draft.statistics |= {split: SplitStatistics() for split in splits}
    with ExitStack() as stack:
        files = {
            split: stack.enter_context(draft.paths[split].open("x", encoding="utf-8", newline="\n"))
            for split in splits
        }
        for example in read_examples(whole):
            split = split_of.get(fingerprint(*example.texts), "train")
            draft.statistics[split].add(example)
            files[split].write(example.to_line())
    whole.unlink()

"""Corrections of stored rows: another label, another tag of a token, or a row that is left out."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.examples import json_line

LABELED_TASKS: Final = frozenset({"classification", "multilabel", "tagging"})
"""The tasks whose rows, or tokens, have labels. Rows of other tasks can only be left out."""
BETWEEN_LABELS: Final = ", "
"""Between the labels of a multi-label row. Without any it is empty."""
MAX_CORRECTIONS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Correction:
    """What changes in a row of train, counted from 0. ``label`` None leaves the row out. For tagging, the
    label is the tag of ``token``, counted from 0. Several labels are joined by ``BETWEEN_LABELS``."""

    row: int
    label: str | None
    token: int | None = None


def corrections_by_row(
    corrections: Iterable[Correction], *, task: str, labels: Sequence[str], rows: int
) -> dict[int, list[Correction]]:
    """The corrections of each row. ``invalid_field`` unless each is of a row, token and label that exist."""
    by_row: dict[int, list[Correction]] = {}
    for one in corrections:
        if not 0 <= one.row < rows:
            raise _invalid(f"There is no row {one.row} in train. Its {rows:,} rows are counted from 0.")
        if one.label is not None:
            _check_label(one, task, labels)
        others = by_row.setdefault(one.row, [])
        if any(None in (one.label, other.label) or one.token == other.token for other in others):
            raise _invalid(f"Row {one.row} has two corrections.")
        others.append(one)
    if not 0 < sum(map(len, by_row.values())) <= MAX_CORRECTIONS:
        raise _invalid(f"Give 1 to {MAX_CORRECTIONS:,} corrections.")
    return by_row


def write_corrected(
    source: IO[bytes], target: IO[bytes], corrections: Mapping[int, list[Correction]]
) -> None:
    """Copy canonical rows with their corrections. ``invalid_field`` for a token that a row does not have."""
    for number, line in enumerate(source):
        if changes := corrections.get(number):
            if changes[0].label is None:
                continue
            line = json_line(_corrected(json.loads(line), changes)).encode()
        target.write(line)


def _corrected(row: dict[str, Any], changes: list[Correction]) -> dict[str, Any]:
    if "label" in row:
        return row | {"label": changes[0].label}
    if "labels" in row:
        return row | {"labels": _separated(changes[0].label or "")}
    tags = list(row["tags"])
    for one in changes:
        if one.token is None or not 0 <= one.token < len(tags):
            raise _invalid(f"Row {one.row} has {len(tags)} tokens, counted from 0.")
        tags[one.token] = one.label
    return row | {"tags": _begun_spans(tags)}


def _begun_spans(tags: Sequence[str]) -> list[str]:
    """The tags, where a span that lost its first token begins with the next one."""
    begun: list[str] = []
    for tag in tags:
        continues = begun and begun[-1] != "O" and begun[-1][2:] == tag[2:]
        begun.append(f"B-{tag[2:]}" if tag.startswith("I-") and not continues else tag)
    return begun


def _separated(labels: str) -> list[str]:
    return labels.split(BETWEEN_LABELS) if labels else []


def _check_label(correction: Correction, task: str, labels: Sequence[str]) -> None:
    if task not in LABELED_TASKS:
        raise _invalid(f"Rows for {task} can be left out, but not relabeled.")
    tagging = task == "tagging"
    if tagging != (correction.token is not None):
        raise _invalid(f"Row {correction.row}: a correction names a token for tagging, and only then.")
    label = correction.label or ""
    known = ["O", *(f"{place}-{label}" for label in labels for place in "BI")] if tagging else labels
    for one in _separated(label) if task == "multilabel" else [label]:
        if one not in known:
            what = "tag" if tagging else "label"
            raise _invalid(f"Row {correction.row}: the dataset has no {what} {one!r}.")


def _invalid(message: str) -> HmiError:
    return HmiError(ErrorCode.INVALID_FIELD, message, param="corrections")

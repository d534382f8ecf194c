"""Rows of a dataset whose label looks wrong, and what a corrected dataset was made of."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.forms import BoundField

from frontend.forms.label_checks import CorrectionsForm, suspect_field
from frontend.presenters.data import row_texts
from tenants.base.plurals import counted
from tenants.datasets.models import Dataset
from tenants.datasets.selectors.previews import truncated_row
from versiontree.tree.selectors.label_checks import Suspect
from versiontree.tree.selectors.versions import as_mapping

TOKENS_AROUND = 12
"""Tokens that are shown before and after the one whose tag looks wrong."""


@dataclass(frozen=True, slots=True)
class SuspectRow:
    """A suspect. `before` and `after` are the text around `token`, whose tag looks wrong; otherwise `texts`
    are those of the row. `number` counts the rows of train from 1."""

    number: int
    texts: list[str]
    before: str
    token: str
    after: str
    cut: bool
    label: str
    suggested: str
    confidence: float
    field: BoundField


def suspect_rows(suspects: Iterable[Suspect], form: CorrectionsForm) -> list[SuspectRow]:
    """Return the rows of suspects, in their order."""
    return [_row(one, form[suspect_field(one)]) for one in suspects]


def corrected_note(dataset: Dataset) -> dict[str, Any]:
    """Return which dataset this one is a corrected copy of, and what was corrected; empty if it is none."""
    found = as_mapping(dataset.report.get("corrected"))
    if not found:
        return {}
    relabeled, left_out = found["relabeled"], found["left_out"]
    changes = [f"{counted(relabeled, 'label')} changed"] if relabeled else []
    changes += [f"{counted(left_out, 'row')} left out"] if left_out else []
    return {**found["dataset"], "changes": ", ".join(changes)}


def _row(suspect: Suspect, field: BoundField) -> SuspectRow:
    example, at = suspect.example, suspect.token
    shown = truncated_row(example)
    tokens = example.get("tokens", [])
    of_token = at is not None and at < len(tokens)
    start, end = max(0, (at or 0) - TOKENS_AROUND), (at or 0) + 1 + TOKENS_AROUND
    return SuspectRow(
        number=suspect.row + 1,
        texts=[] if of_token else row_texts(shown),
        before=" ".join(tokens[start:at]) if of_token else "",
        token=tokens[at] if of_token and at is not None else "",
        after=" ".join(tokens[(at or 0) + 1 : end]) if of_token else "",
        cut=(start > 0 or end < len(tokens)) if of_token else shown["cut"],
        label=suspect.label,
        suggested=suspect.suggested,
        confidence=suspect.confidence,
        field=field,
    )

"""The version that a rebased one was made from, and whether it was trained further."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frontend.presenters.formatting import metric_figure, metric_label
from versiontree.jobs.models import JobKind
from versiontree.tree.models import Version
from versiontree.tree.selectors.lineage import REBASE
from versiontree.tree.selectors.versions import as_mapping, is_number


@dataclass(frozen=True, slots=True)
class Rebased:
    """The number of the version that a rebased one took its PET from, its parent, and what was done."""

    version: int
    onto: str
    result: str


def rebased(version: Version) -> Rebased | None:
    """Return what a version was rebased from; None if it is no rebase."""
    config = as_mapping(version.config.get(REBASE))
    number = config.get("version")
    if not isinstance(number, int):
        return None
    measured = as_mapping(as_mapping(version.metrics.get(JobKind.FINE_TUNE)).get(REBASE))
    onto = str(config.get("onto", ""))
    return Rebased(number, onto, _result(measured, onto))


def _result(measured: Mapping[str, Any], onto: str) -> str:
    """Return a sentence about the dev metric on both parents; empty before the job has ended."""
    metric, before, after = (measured.get(name) for name in ("metric", "old", "new"))
    if not (is_number(before) and is_number(after)):
        return ""
    old, new = (metric_figure(str(metric), value, measured.get("rows")) for value in (before, after))
    figures = f"{metric_label(str(metric))} on dev: {old} before, {new} on {onto}"
    if measured.get("trained"):
        return f"The same PET is worse on it ({figures}), so it was trained further."
    return f"The same PET is not worse on it ({figures}), so it was not trained."

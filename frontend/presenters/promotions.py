"""New versions that @default was not moved to, and both versions on the same rows."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.text import capfirst

from frontend.presenters.formatting import metric_label, metric_on_rows
from tenants.base.plurals import counted
from versiontree.tree.models import Version
from versiontree.tree.promotion import LOWER_IS_BETTER, Paired, comparison_of_version, promotion_pending


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """The metric of the version `number` and of an older one on the same rows. `name` says which metric and
    rows, and what was left out of them."""

    name: str
    before: int
    before_value: str
    number: int
    value: str


@dataclass(frozen=True, slots=True)
class PendingPromotion:
    """A ready version that its owner has to promote, and why."""

    version: Version
    reason: str
    compared: list[ComparedRow]


def pending_promotions(versions: Iterable[Version], default: Version | None) -> list[PendingPromotion]:
    """Return the newest of these versions if it waits for its owner. At most one query."""
    newest = max(versions, key=lambda version: version.number, default=None)
    decision = None if newest is None else promotion_pending(newest, default)
    if newest is None or decision is None:
        return []
    return [PendingPromotion(newest, decision.reason, compared_rows(newest))]


def compared_rows(version: Version) -> list[ComparedRow]:
    """Return what the job of a version measured beside the version that was then current."""
    found = comparison_of_version(version)
    if found is None:
        return []
    splits = (("dev", found.dev), ("test", found.test))
    return [
        _row(name, paired, found.version, version.number) for name, paired in splits if paired is not None
    ]


def _row(split: str, paired: Paired, before: int, number: int) -> ComparedRow:
    before_value, value = (
        metric_on_rows(paired.metric, value, paired.rows) for value in (paired.old, paired.new)
    )
    left_out = f", without {paired.left_out:,} that v{number} was trained on" if paired.left_out else ""
    metric, rows = capfirst(metric_label(paired.metric)), counted(paired.rows, f"{split} row")
    lower = " (lower is better)" if paired.metric in LOWER_IS_BETTER else ""
    return ComparedRow(
        name=f"{metric}{lower}, on {rows} of v{before}{left_out}",
        before=before,
        before_value=before_value,
        number=number,
        value=value,
    )

"""New versions that @default was not moved to, or was although they score lower. Both on the same rows."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.text import capfirst

from frontend.presenters.formatting import few_rows_interval, metric_figure, metric_label
from tenants.base.plurals import counted
from versiontree.tree.models import Version
from versiontree.tree.models.hplm import DEFAULT_ALIAS
from versiontree.tree.promotion import LOWER_IS_BETTER, Paired, comparison_of_version, promotion_pending
from versiontree.tree.selectors.alias_history import alias_history

WORTH_A_WARNING = 0.01
"""Share of a metric that a version has to lose before pages warn of it."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """The metric of the version `number` and of an older one on the same rows, with their intervals. `name`
    says which metric and rows, and what was left out of them."""

    name: str
    before: int
    before_value: str
    before_interval: str
    number: int
    value: str
    interval: str


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


@dataclass(frozen=True, slots=True)
class LowerDefault:
    """A version that became the default by itself although it scores lower than the one before it. `back`:
    the version to roll back to, if it is ready."""

    version: Version
    before: int
    back: Version | None
    compared: list[ComparedRow]


def lower_default(default: Version | None) -> LowerDefault | None:
    """Return the default version if nobody clicked to promote it and it scores lower. At most one query."""
    found = None if default is None else comparison_of_version(default)
    if default is None or default.hplm is None or found is None:
        return None
    if not any(paired is not None and _is_lower(paired) for paired in (found.dev, found.test)):
        return None
    history = alias_history(default.hplm, DEFAULT_ALIAS)
    last = history.last
    if last is None or last.moved_by is not None or last.from_version is None:
        return None
    if last.from_version.number != found.version:
        return None
    return LowerDefault(default, found.version, history.rollback_target, compared_rows(default))


def _is_lower(paired: Paired) -> bool:
    return paired.loss > 0 and paired.loss >= WORTH_A_WARNING * abs(paired.old)


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
    (before_value, before_interval), (value, interval) = (
        (metric_figure(paired.metric, one, paired.rows), few_rows_interval(paired.metric, one, paired.rows))
        for one in (paired.old, paired.new)
    )
    left_out = f", without {paired.left_out:,} that v{number} was trained on" if paired.left_out else ""
    metric, rows = capfirst(metric_label(paired.metric)), counted(paired.rows, f"{split} row")
    lower = " (lower is better)" if paired.metric in LOWER_IS_BETTER else ""
    return ComparedRow(
        name=f"{metric}{lower}, on {rows} of v{before}{left_out}",
        before=before,
        before_value=before_value,
        before_interval=before_interval,
        number=number,
        value=value,
        interval=interval,
    )

"""Rows of models, with health and usage."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from frontend.presenters.formatting import few_rows_interval, metric_figure, metric_label
from frontend.presenters.tree import default_version
from frontend.status import Style, style_of
from tenants.usage.models import UsageDay
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.alias_history import AliasHistory
from versiontree.tree.selectors.browsing import Branch, VersionSummary
from versiontree.tree.selectors.readiness import MAX_FAILED_SHARE


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A row of a model, with the figures of its default version, or of its newest one without a default.

    `state` is that of the newest version while it is building or if it failed. `promotion`: the history of
    its default version, if that was promoted lately.
    """

    name: str
    task: str
    state: str
    status: Style
    ready: bool
    quick: bool
    number: int
    parent: str
    metric: str
    metric_name: str
    interval: str
    promotion: AliasHistory | None = None


def model_rows(
    summaries: Iterable[VersionSummary],
    usage: Iterable[UsageDay] = (),
    promotions: Mapping[str, AliasHistory] | None = None,
) -> list[ModelRow]:
    """Return a row per model among these versions, in their order. `usage` shows which ones fail,
    `promotions` which can be rolled back."""
    histories: dict[str, list[VersionSummary]] = defaultdict(list)
    for summary in summaries:
        histories[summary.name].append(summary)
    requests: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for day in usage:
        requests[day.model_name] += day.requests
        failed[day.model_name] += day.failed
    return [
        replace(
            _model_row(history, _status(history, requests[name], failed[name])),
            promotion=(promotions or {}).get(name),
        )
        for name, history in histories.items()
    ]


def branch_names(seen: Iterable[VersionSummary], grown: Collection[Branch]) -> dict[Branch, str]:
    """Return the names of the roots and domains that have models, sorted."""
    found = {brief.branch: brief.name for brief in seen if brief.branch in grown}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _status(history: Sequence[VersionSummary], requests: int, failed: int) -> Style:
    if default_version(history) is None:
        return style_of(history[-1].state)
    if requests and failed / requests >= MAX_FAILED_SHARE:
        return Style(f"{failed / requests:.0%} of requests fail", "danger")
    return style_of(VersionState.READY)


def _first_on_parent(history: Sequence[VersionSummary], shown: VersionSummary) -> VersionSummary:
    """Return the version at which the branch of the shown one begins: its own parent is a domain or root."""
    by_number = {one.number: one for one in history}
    while shown.parent_is_hplm and shown.parent_number in by_number:
        shown = by_number[shown.parent_number]
    return shown


def _model_row(history: Sequence[VersionSummary], status: Style) -> ModelRow:
    answers, newest = default_version(history), history[-1]
    shown = answers or newest
    first = _first_on_parent(history, shown)
    return ModelRow(
        name=shown.name,
        task=shown.task,
        state=shown.state if newest.state == VersionState.READY else newest.state,
        status=status,
        ready=answers is not None,
        quick=shown.quick,
        number=shown.number,
        parent=f"{first.parent_name} v{first.parent_number}",
        metric="" if shown.value is None else metric_figure(shown.metric, shown.value, shown.rows),
        metric_name=metric_label(shown.metric),
        interval="" if shown.value is None else few_rows_interval(shown.metric, shown.value, shown.rows),
    )

"""A tenant's models as pages show them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from django.http import HttpRequest

from frontend.presenters.metrics import written
from frontend.presenters.snippets import snippets_of
from frontend.presenters.tree import answering
from frontend.presenters.wording import metric_words
from frontend.status import Style, style_of
from tenants.usage.models import UsageDay
from tenants.usage.selectors import UsageTotal
from versiontree.tree.models import Hplm
from versiontree.tree.models.version import VersionState
from versiontree.tree.selectors.browsing import Branch, VersionSummary
from versiontree.tree.selectors.readiness import MAX_FAILED_SHARE


@dataclass(frozen=True, slots=True)
class HplmRow:
    """A model by the version that answers for it, or by its newest one while none does.

    `state` is that of the newest version when it is being built or failed, so that a list shows what goes on;
    `health` says whether it answers.
    """

    name: str
    task: str
    state: str
    health: Style
    ready: bool
    number: int
    parent: str
    metric: str
    metric_name: str


def hplm_rows(briefs: Iterable[VersionSummary], usage: Iterable[UsageDay] = ()) -> list[HplmRow]:
    """A row for each model among these versions, in their order; `usage` is what health is judged by."""
    histories: dict[str, list[VersionSummary]] = defaultdict(list)
    for brief in briefs:
        histories[brief.name].append(brief)
    asked: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for day in usage:
        asked[day.model_name] += day.requests
        failed[day.model_name] += day.failed
    return [
        _hplm_row(history, _health(history, asked[name], failed[name])) for name, history in histories.items()
    ]


def branch_names(seen: Iterable[VersionSummary], grown: Collection[Branch]) -> dict[Branch, str]:
    """The roots and domains that models hang on, by name."""
    found = {brief.branch: brief.name for brief in seen if brief.branch in grown}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def curl_snippet(request: HttpRequest, hplm: Hplm) -> str:
    """The infer request of a model as a line for a terminal."""
    body = {"model": f"{hplm.tenant.slug}/{hplm.name}", "inputs": ["A text to read."]}
    return snippets_of(request.build_absolute_uri("/api/v1/infer"), body).curl


def _health(history: Sequence[VersionSummary], asked: int, failed: int) -> Style:
    if answering(history) is None:
        return style_of(history[-1].state)
    if asked and failed / asked >= MAX_FAILED_SHARE:
        return Style(f"{failed / asked:.0%} failed", "danger")
    return Style("Healthy", "success") if asked else Style("Ready", "neutral")


def _hplm_row(history: Sequence[VersionSummary], health: Style) -> HplmRow:
    answers, first, newest = answering(history), history[0], history[-1]
    shown = answers or newest
    return HplmRow(
        name=shown.name,
        task=shown.task,
        state=shown.state if newest.state == VersionState.READY else newest.state,
        health=health,
        ready=answers is not None,
        number=shown.number,
        parent=f"{first.parent_name} v{first.parent_number}",
        metric="" if shown.value is None else written(shown.metric, shown.value),
        metric_name=metric_words(shown.metric),
    )


def summed(days: Collection[UsageDay]) -> UsageTotal:
    """Add up days of one model."""
    return UsageTotal(
        requests=sum(day.requests for day in days),
        inputs=sum(day.inputs for day in days),
        tokens=sum(day.tokens for day in days),
        failed=sum(day.failed for day in days),
    )


def daily_requests(days: Iterable[UsageDay], since: date, until: date) -> list[int]:
    """Requests of each day from the first to the last, those without any too."""
    found: Counter[date] = Counter()
    for day in days:
        found[day.day] += day.requests
    return [found[since + timedelta(days=n)] for n in range((until - since).days + 1)]

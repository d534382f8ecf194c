"""The canaries of a model's aliases: both versions side by side."""

from collections.abc import Iterable
from dataclasses import dataclass

from frontend.presenters.formatting import metric_name, metric_on_rows, percent
from frontend.presenters.versions import measurements, same_test
from tenants.accounts.models import Tenant
from tenants.usage.models import AnswerDay
from versiontree.tree.models import Alias, Version
from versiontree.tree.selectors.canaries import canary_answers

NONE = "–"


@dataclass(frozen=True, slots=True)
class CanaryTrial:
    """An alias with a canary. Each line has a name and the figures of its own version and of the canary.

    The versions' answers count from the start of the canary.
    """

    alias: Alias
    lines: list[tuple[str, str, str]]


def canary_trials(tenant: Tenant, aliases: Iterable[Alias]) -> list[CanaryTrial]:
    """Return the trials of the aliases that have a canary. Two queries each."""
    return [
        _trial(tenant, alias, alias.canary)
        for alias in aliases
        if alias.canary is not None and alias.canary_percent is not None
    ]


def _trial(tenant: Tenant, alias: Alias, canary: Version) -> CanaryTrial:
    share, comparable = alias.canary_percent or 0, same_test(alias.version, canary)
    sides = zip(
        _figures(alias.version, canary_answers(tenant, alias, alias.version), 100 - share, comparable),
        _figures(canary, canary_answers(tenant, alias, canary), share, comparable),
        strict=True,
    )
    return CanaryTrial(alias, [(name, own, other) for (name, own), (_, other) in sides])


def _figures(version: Version, answers: AnswerDay, share: int, comparable: bool) -> list[tuple[str, str]]:
    measured = measurements(version)
    value = measured.get("value") if comparable else None
    return [
        ("Share of the requests", f"{share}%"),
        (
            f"Test {metric_name(measured) or 'metric'}",
            metric_on_rows(str(measured["metric"]), value, measured.get("rows"))
            if isinstance(value, int | float)
            else NONE,
        ),
        ("Policy", version.get_policy_display() if version.policy else "Default"),
        ("Requests", f"{answers.requests:,}"),
        ("Failed", f"{answers.failed:,}"),
        ("Texts", f"{answers.texts:,}"),
        ("Confidence", percent(answers.mean_confidence)),
        ("Recomputed", percent(answers.escalated_share)),
        ("Known phrases", percent(answers.coverage[0] if answers.coverage else None)),
    ]

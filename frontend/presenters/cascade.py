"""The cascade of a model version: metric, cost and calibration of its levels."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from frontend.presenters.charts import ReliabilityChart, reliability_chart, reliability_curve
from frontend.presenters.formatting import metric_difference, metric_label, metric_value, percent
from inference.cascade.dispatcher import Level
from inference.cascade.profile import Candidate, CascadeProfile, LevelProfile, Serving
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.models.artifact import Role
from versiontree.tree.selectors.lineage import LineageStep
from versiontree.tree.selectors.versions import as_mapping

TABLE: Final = "Table"
FULL: Final = "Full"
CASCADE: Final = "Cascade"


@dataclass(frozen=True, slots=True)
class CascadeRow:
    """A way to answer: its metric, the share of texts that it computes in full, and the time of a text."""

    name: str
    metric: str
    computed: float
    time: str


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A setting of the cascade, and what it came to."""

    candidate: Candidate
    metric: str
    time: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class CascadeSummary:
    """The cascade of a version, as measured on `rows` rows of the dev split, and on `cross_fitted` training
    rows by models that had not learnt them. `metric` is its name.

    `answers` says what answers, `computed` the share of the texts that is computed, `loss` what that costs of
    the metric, `saved` how much time it saves against computing every text, and `rule` why it was chosen.
    """

    metric: str
    rows: int
    cross_fitted: int
    answers: str
    computed: float
    loss: str
    saved: str
    rule: str
    levels: list[CascadeRow]
    charts: list[ReliabilityChart]
    candidates: list[CandidateRow]


def cascade_profile(step: LineageStep) -> CascadeProfile | None:
    """Return the profile of a version, that of its evaluation or that of the model; None if it has none.

    Raises HplmError if it cannot be read.
    """
    artifact = step.artifacts.get(Role.CASCADE) or step.artifacts.get(Role.HPLM)
    if artifact is None:
        return None
    store = ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))
    return CascadeProfile.load(store.path(artifact.kind, artifact.digest))


def cascade_summary(profile: CascadeProfile, metrics: Mapping[str, Any]) -> CascadeSummary:
    """Return what the page shows of a profile; `metrics` are those of the version."""
    name, serving = _metric_key(metrics), profile.serving()
    ways: list[tuple[str, Serving]] = [(TABLE, Level.TABLE), (CASCADE, serving), (FULL, Level.FULL)]
    return CascadeSummary(
        metric=metric_label(name),
        rows=profile.rows - profile.cross_fitted,
        cross_fitted=profile.cross_fitted,
        answers=_answers(profile, serving),
        computed=profile.computed(serving),
        loss=_loss(profile, serving, name),
        saved=_saved(profile, serving),
        rule=_rule(profile, metric_label(name)),
        levels=[
            CascadeRow(
                label,
                metric_value(name, profile.measured(one).metric),
                profile.computed(one),
                _time(profile, profile.measured(one).milliseconds),
            )
            for label, one in ways
        ],
        charts=[
            _reliability(label, level)
            for label, level in ((TABLE, profile.table), (FULL, profile.full))
            if level.bins
        ],
        candidates=[
            CandidateRow(
                one,
                metric_value(name, one.metric),
                _time(profile, one.milliseconds),
                one is serving,
            )
            for one in profile.candidates
        ],
    )


def _answers(profile: CascadeProfile, serving: Serving) -> str:
    """Return the level that answers, in words."""
    match serving:
        case Level.TABLE:
            return "from the tables"
        case Level.FULL:
            return "computed"
    return f"mixed: {percent(profile.computed(serving))} of the texts are computed after the tables"


def _loss(profile: CascadeProfile, serving: Serving, name: str) -> str:
    """Return the loss with its interval: "0.3 points (95%: -0.5 points to 1.1 points)"."""
    if serving is Level.FULL:
        return "none"
    loss, low, high = (metric_difference(name, one).removeprefix("+") for one in profile.loss(serving))
    return f"{loss} (95%: {low} to {high})" if profile.costs else loss


def _saved(profile: CascadeProfile, serving: Serving) -> str:
    """Return the time saved: "1.9 of 8.4 ms a text (23%)"; of an older profile the share of operations."""
    full = profile.full.milliseconds
    saved = full - profile.measured(serving).milliseconds
    if not saved:
        return "none"
    share = f"{saved / full:.0%}"
    return f"{saved:.2g} of {full:.2g} ms a text ({share})" if profile.costs else share


def _rule(profile: CascadeProfile, metric: str) -> str:
    """Return the rule by which it was decided what answers."""
    if profile.costs is None:
        return "An earlier release chose this by numbers of operations. An update measures times."
    if not (profile.report or {}).get("fitted", True):
        return "On so few rows a loss would not be seen, so every text is computed."
    return (
        f"Of the ways whose {metric} is within one standard error of the best, and which lose at most 2"
        " points with a probability of 95%, the fastest answers."
    )


def _time(profile: CascadeProfile, milliseconds: float) -> str:
    return f"{milliseconds:.2g} ms" if profile.costs else f"{milliseconds:.1%}"


def _metric_key(metrics: Mapping[str, Any]) -> str:
    """Return the key of the metric that fine-tuning and evaluation report."""
    dev = as_mapping(as_mapping(metrics.get("fine_tune")).get("dev"))
    return str(dev.get("metric") or as_mapping(metrics.get("evaluate")).get("metric") or "metric")


def _reliability(label: str, level: LevelProfile) -> ReliabilityChart:
    """Return the diagram of a level, before calibration where that is known, and after."""
    before = reliability_curve("before", "4", level.bins_before, level.ece_before)
    after = reliability_curve("calibrated", "0", level.bins, level.ece)
    return reliability_chart(label, [before, after] if level.bins_before else [after])

"""The cascade of a model version: metric, cost and calibration of its levels on the dev split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from frontend.presenters.charts import ReliabilityChart, reliability_chart, reliability_curve
from frontend.presenters.formatting import metric_label, metric_value
from inference.cascade.profile import Candidate, CascadeProfile, LevelProfile
from versiontree.artifact_store import ArtifactStore
from versiontree.tree.models.artifact import Role
from versiontree.tree.selectors.lineage import LineageStep
from versiontree.tree.selectors.versions import as_mapping

TABLE: Final = "Table"
FULL: Final = "Full"
CASCADE: Final = "Cascade"


@dataclass(frozen=True, slots=True)
class CascadeRow:
    """A way to answer: its metric, the share of texts that it computes in full, and its cost.

    The cost is the share of the operations of computing every text in full.
    """

    name: str
    metric: str
    computed: float
    cost: float


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A setting of the cascade, and what it came to on the dev split."""

    candidate: Candidate
    metric: str
    cost: float
    chosen: bool


@dataclass(frozen=True, slots=True)
class CascadeSummary:
    """The cascade of a version, as measured on `rows` rows of the dev split. `metric` is its name."""

    metric: str
    rows: int
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
    name = _metric_key(metrics)
    chosen, most = profile.candidate(), profile.full.operations or 1.0
    served, escalated = (chosen, chosen.escalated) if profile.saves(chosen) else (profile.full, 1.0)
    return CascadeSummary(
        metric=metric_label(name),
        rows=profile.rows,
        levels=[
            CascadeRow(label, metric_value(name, one.metric), computed, one.operations / most)
            for label, one, computed in (
                (TABLE, profile.table, 0.0),
                (CASCADE, served, escalated),
                (FULL, profile.full, 1.0),
            )
        ],
        charts=[
            _reliability(label, level)
            for label, level in ((TABLE, profile.table), (FULL, profile.full))
            if level.bins
        ],
        candidates=_candidate_rows(profile.candidates, chosen, name, most),
    )


def _metric_key(metrics: Mapping[str, Any]) -> str:
    """Return the key of the metric that fine-tuning and evaluation report."""
    dev = as_mapping(as_mapping(metrics.get("fine_tune")).get("dev"))
    return str(dev.get("metric") or as_mapping(metrics.get("evaluate")).get("metric") or "metric")


def _reliability(label: str, level: LevelProfile) -> ReliabilityChart:
    """Return the diagram of a level, before calibration where that is known, and after."""
    before = reliability_curve("before", "4", level.bins_before, level.ece_before)
    after = reliability_curve("calibrated", "0", level.bins, level.ece)
    return reliability_chart(label, [before, after] if level.bins_before else [after])


def _candidate_rows(
    candidates: Sequence[Candidate], chosen: Candidate, name: str, most: float
) -> list[CandidateRow]:
    return [
        CandidateRow(one, metric_value(name, one.metric), one.operations / most, one is chosen)
        for one in candidates
    ]

"""The cascade of one version of a model: calibration, what was measured on dev, and what is chosen by it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from inference.cascade.dispatcher import AnswerPolicy, Count, Coverage, Dispatcher, Level, OutputKind
from inference.cascade.platt_scaling import UNSCALED, Coefficient, PlattScaling
from inference.errors import HplmError

CASCADE_FILE: Final = "cascade.json"
FORMAT: Final = 2
OPERATIONS_FORMAT: Final = 1
"""Of profiles whose costs are counts of multiplications."""
INTERVAL: Final = 1.96
"""Standard errors to both sides of a 95 % interval."""
Share = Annotated[float, Meta(ge=0, le=1)]
BelowOne = Annotated[float, Meta(ge=0, lt=1)]
"""Equation 4 divides by 1 - c."""
Metric = Annotated[float, Meta(ge=-1, le=1)]
Temperature = Annotated[float, Meta(ge=1e-3, le=1e3)]
Slope = Annotated[float, Meta(ge=0, le=1e3)]
"""Beyond these bounds numbers overflow; none that is fitted comes near them."""
NotNegative = Annotated[float, Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class Bin:
    """Dev rows of like confidence: how many, their mean confidence, and the share that was right."""

    rows: Count
    confidence: Share
    right: Share


@dataclass(frozen=True, slots=True)
class LevelCost:
    """Milliseconds of a text: `fixed`, and `per_token` for each of its tokens."""

    fixed: NotNegative
    per_token: NotNegative


@dataclass(frozen=True, slots=True)
class LevelCosts:
    """The measured cost of a text at each level. One that goes on costs both."""

    table: LevelCost
    full: LevelCost


@dataclass(frozen=True, slots=True)
class LevelProfile:
    """One level on dev. metric: the task's own, 0 to 1. milliseconds: of a mean text of dev. standard_error:
    of the difference between its metric and that of the level FULL. ece, ece_before: expected calibration
    error after and before calibration, 0 to 1; None for numbers. bins, bins_before: the reliability diagram
    after and before. platt: of its answers."""

    metric: Metric
    milliseconds: NotNegative
    temperature: Temperature = 1.0
    ece: Share | None = None
    ece_before: Share | None = None
    bins: tuple[Bin, ...] = ()
    bins_before: tuple[Bin, ...] = ()
    platt: PlattScaling = UNSCALED
    standard_error: NotNegative = 0.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One setting of the cascade and what it came to on dev. weight: of the level FULL in the answer to a
    text that went on (Tabi, equation 6). metric, escalated (share of the texts): as measured. milliseconds,
    standard_error: as of a `LevelProfile`. platt: of the answers to texts that went on."""

    cutoff: BelowOne
    slope: Slope
    weight: Share
    metric: Metric
    escalated: Share
    milliseconds: NotNegative
    platt: PlattScaling = UNSCALED
    standard_error: NotNegative = 0.0


Serving = Level | Candidate
"""What answers texts: a level alone, or the cascade by one of its candidates."""


@dataclass(frozen=True, slots=True)
class CascadeProfile:
    """cascade.json of a model. threshold: as calibrated at the level TABLE. coefficients: see `Dispatcher`.
    candidates: by rising cost; chosen: the place of the one that serves if the cascade does. serves: how the
    policy CASCADE answers without a target. rows: that it was fitted on; cross_fitted: how many of these are
    of the training split, answered by models that had not learnt them. report: further figures of the choice,
    for people. coverage: of the tokens of dev. same_within: numbers of both levels that differ by no more are
    the same answer. costs: from which all milliseconds follow; without them these are shares of the level
    FULL. None where they are not known."""

    kind: OutputKind
    table: LevelProfile
    full: LevelProfile
    candidates: tuple[Candidate, ...]
    chosen: Count
    serves: AnswerPolicy = AnswerPolicy.CASCADE
    threshold: Share = 0.5
    coefficients: tuple[Coefficient, ...] = ()
    rows: Count = 0
    cross_fitted: Count = 0
    report: Mapping[str, Any] | None = None
    coverage: Coverage | None = None
    same_within: NotNegative | None = None
    costs: LevelCosts | None = None

    def __post_init__(self) -> None:
        if self.chosen >= len(self.candidates):
            raise ValueError(f"chosen is {self.chosen}, of {len(self.candidates)} candidates")
        if len(self.coefficients) not in (0, 4):
            raise ValueError(f"{len(self.coefficients)} coefficients")

    def candidate(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.chosen]

    def serving(self, target: float | None = None) -> Serving:
        """What answers under the policy CASCADE. With a target: the cheapest whose metric on dev is at least
        that, else the best, of those that cost no more than the level FULL; a level alone before a candidate
        that is no cheaper or no better."""
        if target is None:
            alone = {AnswerPolicy.TABLE: Level.TABLE, AnswerPolicy.FULL: Level.FULL}
            return alone.get(self.serves) or self.candidate()
        every: list[Serving] = [*Level, *self.candidates]
        ways = [one for one in every if self.measured(one).milliseconds <= self.full.milliseconds]
        enough = [one for one in ways if self.measured(one).metric >= target]
        if enough:
            return min(enough, key=lambda one: self.measured(one).milliseconds)
        return max(ways, key=lambda one: self.measured(one).metric)

    def measured(self, serving: Serving) -> LevelProfile | Candidate:
        """The metric, the cost and the error of what answers."""
        if isinstance(serving, Candidate):
            return serving
        return self.table if serving is Level.TABLE else self.full

    def loss(self, serving: Serving) -> tuple[float, float, float]:
        """How much of the level FULL's metric is lost, and its 95 % interval. Negative if it is better."""
        measured = self.measured(serving)
        loss, margin = self.full.metric - measured.metric, INTERVAL * measured.standard_error
        return loss, loss - margin, loss + margin

    def computed(self, serving: Serving) -> float:
        """The share of texts that are computed in full."""
        return serving.escalated if isinstance(serving, Candidate) else float(serving is Level.FULL)

    def dispatcher(self, candidate: Candidate) -> Dispatcher:
        """What decides, for that candidate."""
        return Dispatcher(
            self.kind,
            self.table.temperature,
            self.threshold,
            candidate.cutoff,
            candidate.slope,
            self.coefficients,
            self.table.platt,
        )

    def save(self, folder: Path) -> None:
        """Write cascade.json into the folder of a model."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True, allow_nan=False)
        (folder / CASCADE_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> "CascadeProfile | None":
        """Read what `save` wrote; None if it is not there. Raises HplmError(corrupt_artifact)."""
        path = folder / CASCADE_FILE
        if not path.is_file():
            return None
        try:
            data = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
            found = data.pop("format", None)
            if found == OPERATIONS_FORMAT:
                return _from_operations(msgspec.convert(_renamed(data), cls))
            if found != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            return msgspec.convert(data, cls)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise HplmError("corrupt_artifact", f"{CASCADE_FILE} cannot be read: {error}") from error


def _renamed(data: dict[str, Any]) -> dict[str, Any]:
    """A profile of OPERATIONS_FORMAT with its costs where those of today are."""
    for part in (data["table"], data["full"], *data["candidates"]):
        part["milliseconds"] = part.pop("operations")
    return data


def _from_operations(profile: CascadeProfile) -> CascadeProfile:
    """Costs as shares of the level FULL. Served as when it was fitted: by that level alone if the chosen
    candidate took no fewer operations."""
    saves = profile.candidate().milliseconds < profile.full.milliseconds
    unit = profile.full.milliseconds or 1.0
    return replace(
        profile,
        table=replace(profile.table, milliseconds=profile.table.milliseconds / unit),
        full=replace(profile.full, milliseconds=profile.full.milliseconds / unit),
        candidates=tuple(replace(one, milliseconds=one.milliseconds / unit) for one in profile.candidates),
        serves=AnswerPolicy.CASCADE if saves else AnswerPolicy.FULL,
    )

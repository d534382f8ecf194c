"""The cascade of one version of a model: calibration, what was measured on dev, and what is chosen by it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from inference.cascade.dispatcher import PRUNED_KINDS, Count, Coverage, Dispatcher, OutputKind
from inference.cascade.platt_scaling import UNSCALED, Coefficient, PlattScaling
from inference.errors import HplmError

CASCADE_FILE: Final = "cascade.json"
FORMAT: Final = 1
Share = Annotated[float, Meta(ge=0, le=1)]
BelowOne = Annotated[float, Meta(ge=0, lt=1)]
"""Equation 4 divides by 1 - c; equation 5 would leave out all words that are equally important."""
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
class LevelProfile:
    """One level on dev. metric: the task's own, 0 to 1. operations: multiplications of a mean text, lower and
    upper layers together. ece, ece_before: expected calibration error after and before calibration, 0 to 1;
    None for numbers. bins, bins_before: the reliability diagram after and before. platt: of its answers."""

    metric: Metric
    operations: NotNegative
    temperature: Temperature = 1.0
    ece: Share | None = None
    ece_before: Share | None = None
    bins: tuple[Bin, ...] = ()
    bins_before: tuple[Bin, ...] = ()
    platt: PlattScaling = UNSCALED


@dataclass(frozen=True, slots=True)
class Candidate:
    """One setting of the cascade and what it came to on dev. weight: of the level FULL in the answer to a
    text that went on (Tabi, equation 6). metric, escalated (share of the texts), operations: as measured.
    platt: of the answers to texts that went on. pruning: see `Dispatcher`."""

    cutoff: BelowOne
    slope: Slope
    weight: Share
    metric: Metric
    escalated: Share
    operations: NotNegative
    platt: PlattScaling = UNSCALED
    pruning: BelowOne = 0.0


@dataclass(frozen=True, slots=True)
class CascadeProfile:
    """cascade.json of a model. threshold: as calibrated at the level TABLE. coefficients: see `Dispatcher`.
    candidates: by rising cost; chosen: the place of the one that serves without a target. report: further
    figures of the choice, for people. coverage: of the tokens of dev. same_within: numbers of both levels
    that differ by no more are the same answer. None where they are not known."""

    kind: OutputKind
    table: LevelProfile
    full: LevelProfile
    candidates: tuple[Candidate, ...]
    chosen: Count
    threshold: Share = 0.5
    coefficients: tuple[Coefficient, ...] = ()
    rows: Count = 0
    report: Mapping[str, Any] | None = None
    coverage: Coverage | None = None
    same_within: NotNegative | None = None

    def __post_init__(self) -> None:
        if self.chosen >= len(self.candidates):
            raise ValueError(f"chosen is {self.chosen}, of {len(self.candidates)} candidates")
        if self.kind not in PRUNED_KINDS and any(one.pruning for one in self.candidates):
            raise ValueError(f"outputs of the kind {self.kind} cannot be pruned")
        if len(self.coefficients) not in (0, 4):
            raise ValueError(f"{len(self.coefficients)} coefficients")

    def candidate(self, target: float | None = None) -> Candidate:
        """The cheapest candidate whose metric on dev is at least the target, else the best; without a target
        the chosen one."""
        if target is None:
            return self.candidates[self.chosen]
        enough = [one for one in self.candidates if one.metric >= target]
        if enough:
            return min(enough, key=lambda one: one.operations)
        return max(self.candidates, key=lambda one: one.metric)

    def saves(self, candidate: Candidate) -> bool:
        """Whether it costs less than to compute every text at the level FULL. If most texts go on it costs
        more, since they are read at both levels."""
        return candidate.operations < self.full.operations

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
            candidate.pruning,
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
            if data.pop("format", None) != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            return msgspec.convert(data, cls)
        except (OSError, ValueError, RecursionError) as error:
            raise HplmError("corrupt_artifact", f"{CASCADE_FILE} cannot be read: {error}") from error

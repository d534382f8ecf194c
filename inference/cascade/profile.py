"""The cascade of one version of a model: calibration, what was measured on dev, and what is chosen by it."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from inference.cascade.dispatcher import OUTPUT_KINDS, PRUNED_KINDS, Coverage, Dispatcher, OutputKind
from inference.cascade.platt_scaling import UNSCALED, PlattScaling
from inference.errors import HplmError

CASCADE_FILE: Final = "cascade.json"
FORMAT: Final = 1
MIN_TEMPERATURE: Final = 1e-3
MAX_TEMPERATURE: Final = 1e3
MAX_SLOPE: Final = 1e3
MAX_COEFFICIENT: Final = 1e6
"""Beyond these numbers overflow; none that is fitted comes near them."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Dev rows of like confidence: how many, their mean confidence, and the share that was right."""

    rows: int
    confidence: float
    right: float


@dataclass(frozen=True, slots=True)
class LevelProfile:
    """One level on dev. metric: the task's own, 0 to 1. operations: multiplications of a mean text, lower and
    upper layers together. ece, ece_before: expected calibration error after and before calibration, 0 to 1;
    None for numbers. bins, bins_before: the reliability diagram after and before. platt: of its answers."""

    metric: float
    operations: float
    temperature: float = 1.0
    ece: float | None = None
    ece_before: float | None = None
    bins: tuple[Bin, ...] = ()
    bins_before: tuple[Bin, ...] = ()
    platt: PlattScaling = UNSCALED


@dataclass(frozen=True, slots=True)
class Candidate:
    """One setting of the cascade and what it came to on dev. weight: of the level FULL in the answer to a
    text that went on (Tabi, equation 6). metric, escalated (share of the texts), operations: as measured.
    platt: of the answers to texts that went on. pruning: see `Dispatcher`."""

    cutoff: float
    slope: float
    weight: float
    metric: float
    escalated: float
    operations: float
    platt: PlattScaling = UNSCALED
    pruning: float = 0.0


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
    chosen: int
    threshold: float = 0.5
    coefficients: tuple[float, ...] = ()
    rows: int = 0
    report: Mapping[str, Any] | None = None
    coverage: Coverage | None = None
    same_within: float | None = None

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
            return _profile(json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise HplmError("corrupt_artifact", f"{CASCADE_FILE} cannot be read: {error}") from error


def _profile(data: Mapping[str, Any]) -> CascadeProfile:
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']!r} is not {FORMAT}")
    kind = data["kind"]
    if kind not in OUTPUT_KINDS:
        raise ValueError(f"unknown kind {kind!r}")
    candidates = tuple(_candidate(entry) for entry in data["candidates"])
    chosen, rows, report = _count(data["chosen"]), _count(data["rows"]), data["report"]
    if chosen >= len(candidates):
        raise ValueError(f"chosen is {chosen}, of {len(candidates)} candidates")
    if kind not in PRUNED_KINDS and any(one.pruning for one in candidates):
        raise ValueError(f"outputs of the kind {kind} cannot be pruned")
    coefficients = tuple(_between(value, -MAX_COEFFICIENT, MAX_COEFFICIENT) for value in data["coefficients"])
    if len(coefficients) not in (0, 4):
        raise ValueError(f"{len(coefficients)} coefficients")
    if not isinstance(report, Mapping | None):
        raise TypeError("the report is not an object")
    return CascadeProfile(
        kind,
        _level(data["table"]),
        _level(data["full"]),
        candidates,
        chosen,
        _share(data["threshold"]),
        coefficients,
        rows,
        report,
        _coverage(data.get("coverage")),
        _optional_distance(data.get("same_within")),
    )


def _level(data: Mapping[str, Any]) -> LevelProfile:
    return LevelProfile(
        _between(data["metric"], -1, 1),
        _between(data["operations"], 0, math.inf),
        _between(data["temperature"], MIN_TEMPERATURE, MAX_TEMPERATURE),
        _optional_share(data["ece"]),
        _optional_share(data["ece_before"]),
        _bins(data["bins"]),
        _bins(data["bins_before"]),
        _platt(data.get("platt")),
    )


def _bins(data: Sequence[Mapping[str, Any]]) -> tuple[Bin, ...]:
    return tuple(Bin(_count(one["rows"]), _share(one["confidence"]), _share(one["right"])) for one in data)


def _candidate(data: Mapping[str, Any]) -> Candidate:
    return Candidate(
        _below_one(data["cutoff"]),
        _between(data["slope"], 0, MAX_SLOPE),
        _share(data["weight"]),
        _between(data["metric"], -1, 1),
        _share(data["escalated"]),
        _between(data["operations"], 0, math.inf),
        _platt(data.get("platt")),
        # Profiles that were fitted without pruning do not name it.
        _below_one(data.get("pruning", 0.0)),
    )


def _platt(data: Mapping[str, Any] | None) -> PlattScaling:
    if data is None:
        return UNSCALED
    intercept = _between(data["intercept"], -MAX_COEFFICIENT, MAX_COEFFICIENT)
    return PlattScaling(intercept, _between(data["slope"], 0, MAX_COEFFICIENT))


def _coverage(data: Mapping[str, Any] | None) -> Coverage | None:
    return None if data is None else Coverage(*(_count(data[name]) for name in ("whole", "part", "unigram")))


def _optional_distance(value: Any) -> float | None:
    return None if value is None else _between(value, 0, math.inf)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    # Whole numbers of JSON may be too large for a float.
    if not -sys.float_info.max <= value <= sys.float_info.max:
        raise ValueError("a number is not finite")
    return float(value)


def _between(value: Any, low: float, high: float) -> float:
    if not low <= (number := _number(value)) <= high:
        raise ValueError(f"{number} is not from {low} to {high}")
    return number


def _share(value: Any) -> float:
    return _between(value, 0, 1)


def _optional_share(value: Any) -> float | None:
    return None if value is None else _share(value)


def _below_one(value: Any) -> float:
    """Equation 4 divides by 1 - c; equation 5 would leave out all words that are equally important."""
    if (share := _share(value)) == 1:
        raise ValueError("a cutoff or pruning of 1")
    return share


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value

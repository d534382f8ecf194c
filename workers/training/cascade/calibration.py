"""Temperatures by minimal NLL (Tabi, section 4.1, equation 3), Platt scaling, and the calibration error."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression

from inference.cascade.confidence import calibrated_threshold
from inference.cascade.dispatcher import Level, OutputKind
from inference.cascade.platt_scaling import UNSCALED, PlattScaling, log_odds
from inference.cascade.profile import Bin
from workers.training.cascade.outputs import OutputsByLevel, read
from workers.training.tasks.base import IGNORE_INDEX

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Rights = npt.NDArray[np.bool_]
TEMPERATURES: Final = (0.1, 10.0)
"""Bounds of a temperature. On a split that is answered without a mistake the NLL has its minimum at 0."""
BINS: Final = 10
SEVERAL_CHOICES: Final = frozenset[OutputKind]({"labels", "tokens", "span"})
"""Kinds whose answer is right only if several choices are."""
MIN_OF_EACH: Final = 10
"""Right answers, and wrong ones, below which no Platt scaling is fitted."""


def fit_temperature(outputs: OutputsByLevel, level: Level) -> float:
    """The temperature with the least NLL on this split: over its classes, over each label, over the words'
    first tokens, or over start and end. 1 for numbers, and where no expected answer is known."""
    if outputs.output_kind == "number":
        return 1.0
    return temperature_of(*_choices(outputs, level))


def temperature_of(logits: Floats, expected: Indices) -> float:
    """The temperature with the least NLL of the expected outcomes [N] under logits [N, C]; 1 of none."""
    if not len(expected):
        return 1.0
    low, high = np.log(TEMPERATURES)
    found = minimize_scalar(
        lambda at: negative_log_likelihood(logits, expected, float(np.exp(at))),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(np.exp(found.x))


def negative_log_likelihood(logits: Floats, expected: Indices, temperature: float) -> float:
    """The mean NLL of the expected outcomes [N] under logits [N, C], divided by the temperature."""
    scaled = logits / temperature
    scaled = scaled - scaled.max(axis=1, keepdims=True)
    totals = np.log(np.exp(scaled).sum(axis=1))
    return float((totals - scaled[np.arange(len(expected)), expected]).mean())


def _choices(outputs: OutputsByLevel, level: Level) -> tuple[Floats, Indices]:
    """The logits [N, C] of every choice among outcomes that the outputs make, -inf where one has fewer than
    C, and the expected outcomes [N]. Choices whose expected outcome is unknown are left out."""
    kind, logits, expected = outputs.kind, list[Floats](), list[Indices]()
    for owner, (encoding, values) in zip(outputs.owners, outputs.sequences(level), strict=True):
        target = kind.target(outputs.table[owner].example, encoding)
        if outputs.output_kind == "tokens":
            target = read(kind, encoding, target)
        found = _as_choices(outputs.output_kind, read(kind, encoding, values).astype(np.float64))
        logits.append(found)
        expected.append(target.reshape(-1).astype(np.int64))
    widest = max(one.shape[1] for one in logits)
    padded = [np.pad(one, ((0, 0), (0, widest - one.shape[1])), constant_values=-np.inf) for one in logits]
    together = np.concatenate(expected)
    return np.concatenate(padded)[together != IGNORE_INDEX], together[together != IGNORE_INDEX]


def _as_choices(kind: OutputKind, logits: Floats) -> Floats:
    """One row for each choice: whether each label applies, the class of each token, the start and the end."""
    match kind:
        case "labels":
            return np.stack([np.zeros_like(logits), logits], axis=1)
        case "span":
            return logits.T
        case _:
            return np.atleast_2d(logits)


def fit_platt(
    kind: OutputKind, confidences: Floats, right: Rights, otherwise: PlattScaling = UNSCALED
) -> PlattScaling:
    """The Platt scaling of answers with these confidences [N], which are right or not. `otherwise` for kinds
    of one choice, and where the answers do not tell."""
    if kind not in SEVERAL_CHOICES or min(right.sum(), (~right).sum()) < MIN_OF_EACH:
        return otherwise
    odds = np.asarray([[log_odds(one)] for one in confidences.tolist()])
    model = LogisticRegression().fit(odds, right)
    intercept, slope = float(model.intercept_[0]), float(model.coef_[0, 0])
    # A falling logistic would call the surer answers the worse ones.
    return PlattScaling(intercept, slope) if slope > 0 else otherwise


def reliability(confidences: Sequence[float], right: Sequence[bool]) -> tuple[Bin, ...]:
    """The reliability diagram in at most BINS bins of equal mass, by rising confidence."""
    found, hits = np.asarray(confidences, dtype=np.float64), np.asarray(right, dtype=np.float64)
    order = np.argsort(found, kind="stable")
    parts = np.array_split(order, min(BINS, len(order))) if len(order) else []
    # Rounding may lift a mean above the largest value.
    return tuple(Bin(len(one), min(1.0, float(found[one].mean())), float(hits[one].mean())) for one in parts)


def expected_calibration_error(bins: Sequence[Bin]) -> float:
    """The mean distance between confidence and share of right answers, weighted by rows."""
    total = max(1, sum(one.rows for one in bins))
    return sum(one.rows * abs(one.confidence - one.right) for one in bins) / total


def reliability_of(
    outputs: OutputsByLevel, level: Level, temperature: float, platt: PlattScaling = UNSCALED
) -> tuple[Bin, ...]:
    """The reliability diagram of a level's answers, so calibrated; empty for numbers."""
    confidences, right = level_answers(outputs, level, temperature)
    return reliability([platt.probability(one) for one in confidences.tolist()], right.tolist())


def level_answers(outputs: OutputsByLevel, level: Level, temperature: float) -> tuple[Floats, Rights]:
    """The confidences [N] of a level's answers, before Platt scaling, and which of them are right; both empty
    for numbers."""
    threshold = calibrated_threshold(outputs.kind.threshold, temperature)
    confidences = outputs.least_sure(outputs.confidences(level, temperature, threshold))
    return judged(confidences, outputs.rights(outputs.answers(level)))


def judged(confidences: Floats, rights: Sequence[bool | None]) -> tuple[Floats, Rights]:
    """The confidences of those answers that are right or wrong, and which are right."""
    known = np.asarray([one is not None for one in rights], dtype=bool)
    return confidences[known], np.asarray([one for one in rights if one is not None], dtype=bool)

"""Temperatures by minimal NLL, and the expected calibration error (Tabi, section 4.1, equation 3)."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from inference.cascade.confidence import calibrated_threshold
from inference.cascade.dispatcher import Level, OutputKind
from inference.cascade.profile import Bin
from workers.training.cascade.outputs import OutputsByLevel, read
from workers.training.tasks.base import IGNORE_INDEX

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
TEMPERATURES: Final = (0.1, 10.0)
"""Bounds of a temperature. On a split that is answered without a mistake the NLL has its minimum at 0."""
BINS: Final = 10


def fit_temperature(outputs: OutputsByLevel, level: Level) -> float:
    """The temperature with the least NLL on this split: over its classes, over each label, over the words'
    first tokens, or over start and end. 1 for numbers, and where no expected answer is known."""
    if outputs.output_kind == "number":
        return 1.0
    logits, expected = _choices(outputs, level)
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


def reliability_of(outputs: OutputsByLevel, level: Level, temperature: float) -> tuple[Bin, ...]:
    """The reliability diagram of a level's answers with this temperature; empty for numbers.

    An example that is read in several windows is as sure as the least sure of them. Right is what
    `TaskKind.evaluate` calls right: of tagging the whole sentence, of several labels the exact set.
    """
    kind = outputs.kind
    rights = [kind.evaluate(one, kind.predict(one)).right for one in outputs.at(level)]
    threshold = calibrated_threshold(kind.threshold, temperature)
    sure = np.ones(len(rights))
    for owner, found in zip(outputs.owners, outputs.confidences(level, temperature, threshold), strict=True):
        sure[owner] = min(sure[owner], 1.0 if found is None else found)
    known = [(one, right) for one, right in zip(sure.tolist(), rights, strict=True) if right is not None]
    return reliability([one for one, _ in known], [right for _, right in known])

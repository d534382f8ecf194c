"""How sure a model is of an answer: the calibrated probability that it is right (Tabi, section 4.1)."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.cascade.dispatcher import OutputKind
from inference.cascade.platt_scaling import sigmoid

Floats = NDArray[np.floating[Any]]
Probabilities = NDArray[np.float64]


def probabilities(kind: OutputKind, logits: Floats, temperature: float = 1.0) -> Probabilities:
    """The probabilities of logits, in their shape, divided by the temperature first (Tabi, equation 3).

    Of labels each has its own; of a span those of each column add up to 1. Numbers stay as they are.
    """
    values = logits.astype(np.float64)
    match kind:
        case "number":
            return values
        case "labels":
            return np.asarray(1 / (1 + np.exp(-(values / temperature).clip(-500, 500))))
        case _:
            return _softmax(values / temperature, axis=0 if kind == "span" else -1)


def confidence(
    kind: OutputKind, logits: Floats, temperature: float = 1.0, threshold: float = 0.5
) -> float | None:
    """The calibrated probability that the answer which the logits give is right; None for a number.

    Of several labels or tokens it is that of the least sure one, of a span the product of both ends.
    threshold: the calibrated probability from which a label applies.
    """
    if kind == "number":
        return None
    found = probabilities(kind, logits, temperature)
    match kind:
        case "labels":
            return float(np.where(found >= threshold, found, 1 - found).min(initial=1.0))
        case "span":
            return float(found.max(axis=0).prod())
        case _:
            return float(found.max(axis=-1).min(initial=1.0))


def calibrated_threshold(threshold: float, temperature: float) -> float:
    """The threshold on calibrated probabilities that predicts the same labels as this one on those of a
    temperature of 1."""
    if not 0 < threshold < 1:
        return threshold
    return sigmoid(math.log(threshold / (1 - threshold)) / temperature)


def ensemble(table: Probabilities, full: Probabilities, weight: float) -> Probabilities:
    """The weighted average of both levels' probabilities (Tabi, equation 6). weight: of the level `full`."""
    return np.asarray(weight * full + (1 - weight) * table)


def to_logits(kind: OutputKind, found: Probabilities) -> NDArray[np.float32]:
    """Logits in float32 that have these probabilities, with a temperature of 1."""
    if kind == "number":
        return found.astype(np.float32)
    tiny = np.finfo(np.float32).tiny
    logits = np.log(found.clip(tiny))
    if kind == "labels":
        logits = logits - np.log((1 - found).clip(tiny))
    return np.asarray(logits, dtype=np.float32)


def _softmax(values: NDArray[np.float64], axis: int) -> Probabilities:
    shifted = np.exp(values - values.max(axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))

"""Linear heads on fixed features (linear probes): logistic and ridge regression, fitted in seconds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from sklearn.model_selection import GroupKFold
from threadpoolctl import threadpool_limits

from workers.training.cascade.calibration import temperature_of

Floats = npt.NDArray[np.float32]
Groups = npt.NDArray[np.int64]
FOLDS: Final = 3
PENALTIES: Final = (10_000.0, 3_000.0, 1_000.0, 300.0, 100.0, 30.0, 10.0)
"""Of half the squared weights, beside the sum of the losses; from the strongest, whose fit is the fastest."""
MAX_ITERATIONS: Final = 60
TOLERANCE: Final = 1e-3
"""An iteration that lowers the loss by less than this share of it is the last one. With a tenth of it a fit
takes twice the time, and is no better."""
LEAST_DEVIATION: Final = 1e-6
"""Features that vary less are constant."""
Check = Callable[[], None]
Regression = Literal["multinomial", "logistic", "ridge"]


@dataclass(frozen=True, slots=True)
class LinearProbe:
    """weight [C, w] and bias [C] for features as they are. penalty: the one of the least cross-validated
    loss. held_out [N, C]: the outputs for each row by a probe that was fitted without its group."""

    weight: Floats
    bias: Floats
    penalty: float
    held_out: Floats


def fit_probe(
    features: Floats, targets: Floats, groups: Groups, kind: Regression, check: Check
) -> LinearProbe:
    """A probe from features [N, w] to targets [N, C].

    kind: "multinomial" if exactly one of the C targets is one, the others zero; "logistic" if each is one or
    zero by itself; "ridge" of numbers, of a mean near 0 and a deviation near 1. groups [N]: rows that stay
    together in cross-validation. check: called at each iteration, and may raise.
    """
    scale = _Scale.of(features)
    given = scale.apply(features)
    loss = _LOSSES[kind]
    fits = [
        (_Fit(given[rows], targets[rows], loss, check), others) for rows, others in _folds(groups, len(given))
    ]
    whole = _Fit(given, targets, loss, check)
    held_out, best = np.zeros(targets.shape, np.float32), np.inf
    penalty = PENALTIES[0]
    for candidate in PENALTIES if fits else ():
        found = np.empty(targets.shape, np.float32)
        for fit, others in fits:
            weight, bias = fit.solve(candidate)
            found[others] = given[others] @ weight.T + bias
        value = loss(found, targets)[0]
        # The loss falls, then rises, with ever weaker penalties.
        if value >= best:
            break
        held_out, best, penalty = found, value, candidate
    return LinearProbe(*scale.fold(*whole.solve(penalty)), penalty, held_out)


def calibrated(probe: LinearProbe, targets: Floats, *, several: bool) -> LinearProbe:
    """The probe with outputs that are divided by one temperature, fitted on what was held out. several: see
    `choices`."""
    if not probe.held_out.any():  # there was but one group
        return probe
    scale = np.float32(1 / temperature_of(*choices(probe.held_out, targets, several=several)))
    return replace(
        probe, weight=probe.weight * scale, bias=probe.bias * scale, held_out=probe.held_out * scale
    )


def choices(
    outputs: Floats, targets: Floats, *, several: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The logits of each choice that was made, and the index of what was expected of it, from outputs and
    targets [N, C]: one of N rows among C, or, of several labels, whether each of N C is one."""
    if not several:
        return outputs.astype(np.float64), targets.argmax(axis=1)
    logits = np.stack([np.zeros_like(outputs), outputs], axis=2).reshape(-1, 2)
    return logits.astype(np.float64), targets.ravel().astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Mean and deviation [w] of each feature."""

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, features: Floats) -> "_Scale":
        deviation = features.std(axis=0)
        return cls(features.mean(axis=0), np.where(deviation < LEAST_DEVIATION, np.float32(1), deviation))

    def apply(self, features: Floats) -> Floats:
        """The standardised features."""
        return (features - self.mean) / self.deviation

    def fold(self, weight: npt.NDArray[Any], bias: npt.NDArray[Any]) -> tuple[Floats, Floats]:
        """Weight and bias for features as they are, of those for standardised ones."""
        own = weight / self.deviation
        return own.astype(np.float32), (bias - own @ self.mean).astype(np.float32)


Loss = Callable[[Floats, Floats], tuple[float, Floats]]


def _softmax_loss(logits: Floats, targets: Floats) -> tuple[float, Floats]:
    """The summed negative log-likelihood and its derivative by the logits [N, C]."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_totals = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    found = shifted - log_totals
    return -float((found * targets).sum(dtype=np.float64)), np.exp(found) - targets


def _sigmoid_loss(logits: Floats, targets: Floats) -> tuple[float, Floats]:
    """As `_softmax_loss`, where each output is one or not by itself."""
    values = np.logaddexp(0, logits) - targets * logits
    return float(values.sum(dtype=np.float64)), np.float32(1) / (np.float32(1) + np.exp(-logits)) - targets


def _squared_loss(outputs: Floats, targets: Floats) -> tuple[float, Floats]:
    """As `_softmax_loss`: half the summed squares of the errors."""
    errors = outputs - targets
    return float((errors * errors).sum(dtype=np.float64)) / 2, errors


_LOSSES: Final[dict[Regression, Loss]] = {
    "multinomial": _softmax_loss,
    "logistic": _sigmoid_loss,
    "ridge": _squared_loss,
}


class _Fit:
    """Fits the same rows with ever weaker penalties, each from where the last one ended."""

    def __init__(self, features: Floats, targets: Floats, loss: Loss, check: Check) -> None:
        self._features, self._targets, self._loss, self._check = features, targets, loss, check
        self._shape = targets.shape[1], features.shape[1]
        self._at = np.zeros(self._shape[0] * (self._shape[1] + 1))

    def solve(self, penalty: float) -> tuple[Floats, Floats]:
        """Weight [C, w] and bias [C]."""
        # The products are small: beside other work two threads took twelve times the processor time of one,
        # since they spin while they wait for each other.
        with threadpool_limits(limits=1, user_api="blas"):
            found = minimize(
                self._objective,
                self._at,
                (penalty,),
                method="L-BFGS-B",
                jac=True,
                options={"maxiter": MAX_ITERATIONS, "ftol": TOLERANCE},
            )
        self._at = found.x
        return self._parts(found.x)

    def _parts(self, at: npt.NDArray[np.float64]) -> tuple[Floats, Floats]:
        weight, bias = np.split(at.astype(np.float32), [self._shape[0] * self._shape[1]])
        return weight.reshape(self._shape), bias

    def _objective(
        self, at: npt.NDArray[np.float64], penalty: float
    ) -> tuple[float, npt.NDArray[np.float64]]:
        self._check()
        weight, bias = self._parts(at)
        value, slope = self._loss(self._features @ weight.T + bias, self._targets)
        by_weight = slope.T @ self._features + np.float32(penalty) * weight
        gradient = np.concatenate([by_weight.ravel(), slope.sum(axis=0)]).astype(np.float64)
        return value + penalty / 2 * float((weight * weight).sum(dtype=np.float64)), gradient


def _folds(groups: Groups, rows: int) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """The rows that are fitted and those that are held out; nothing where there is but one group."""
    count = min(FOLDS, len(np.unique(groups)))
    if count > 1:
        yield from GroupKFold(count, shuffle=True, random_state=0).split(np.empty(rows), groups=groups)

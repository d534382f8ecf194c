"""Linear heads on fixed features, fitted in seconds: logistic and ridge regression (linear probes)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold

Floats = npt.NDArray[np.float32]
Groups = npt.NDArray[np.int64]
FOLDS: Final = 3
PENALTIES: Final = (30_000.0, 10_000.0, 3_000.0, 1_000.0, 300.0, 100.0, 30.0)
"""Of half the squared weights, beside the sum of the losses; from the strongest, whose fit is the fastest."""
RIDGE_PENALTIES: Final = (100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0)
MAX_ITERATIONS: Final = 60
TOLERANCE: Final = 1e-4
"""An iteration that lowers the loss by less than this share of it is the last one."""
LEAST_DEVIATION: Final = 1e-6
"""Features that vary less are constant."""
Check = Callable[[], None]


@dataclass(frozen=True, slots=True)
class LinearProbe:
    """weight [C, w] and bias [C] for features as they are. penalty: the one of the least cross-validated
    loss. held_out [N, C]: the outputs for each row by a probe that was fitted without its group."""

    weight: Floats
    bias: Floats
    penalty: float
    held_out: Floats | None = None


def fit_logistic(
    features: Floats, targets: Floats, groups: Groups, check: Check, *, several: bool = False
) -> LinearProbe:
    """Logistic regression from features [N, w] to targets [N, C] of zeros and ones.

    several: of the C outputs any number is one, else exactly one of them (multinomial). groups [N]: rows that
    stay together in cross-validation. check: called at each iteration, and may raise.
    """
    scale = _Scale.of(features)
    given = scale.apply(features)
    loss = _sigmoid_loss if several else _softmax_loss
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


def fit_ridge(features: Floats, targets: Floats) -> LinearProbe:
    """Ridge regression from features [N, w] to numbers [N]; the penalty by leave-one-out."""
    scale = _Scale.of(features)
    model = RidgeCV(RIDGE_PENALTIES).fit(scale.apply(features), targets)
    weight, bias = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    return LinearProbe(*scale.fold(weight, bias), float(model.alpha_))


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
    return float(values.sum(dtype=np.float64)), 1 / (1 + np.exp(-logits)) - targets


class _Fit:
    """Fits the same rows with ever weaker penalties, each from where the last one ended."""

    def __init__(self, features: Floats, targets: Floats, loss: Loss, check: Check) -> None:
        self._features, self._targets, self._loss, self._check = features, targets, loss, check
        self._shape = targets.shape[1], features.shape[1]
        self._at = np.zeros(self._shape[0] * (self._shape[1] + 1))

    def solve(self, penalty: float) -> tuple[Floats, Floats]:
        """Weight [C, w] and bias [C]."""
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

"""Which kind of dispatcher a version gets: by confidence, or by a logistic that predicts a change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from inference.cascade.dispatcher import Coverage, Dispatcher, features
from workers.training.cascade.simulation import Mask, Simulation, changed

Floats = npt.NDArray[np.float64]
MIN_OF_EACH: Final = 10
"""Sequences whose answer changes, and whose answer does not, below which no logistic is fitted."""
FOLDS: Final = 5
SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Escalated shares at which both kinds of dispatcher are compared."""
MAX_ITERATIONS: Final = 1000


@dataclass(frozen=True)
class Choice:
    """The kind of dispatcher that is kept. coefficients: of the logistic, empty for the confidence alone.
    certainties [S]: what it gives the dev sequences, each by a logistic that was fitted without it."""

    coefficients: tuple[float, ...]
    certainties: Floats
    report: dict[str, Any]


def choose_dispatcher(
    simulation: Simulation, base: Dispatcher, confidences: Sequence[float | None]
) -> Choice:
    """Keep the better of both kinds: the confidence alone, or the logistic with the coverage.

    They are compared by the mean metric over SHARES of the sequences that go on, the least certain first.
    Numbers have no confidence: their logistic is compared with a choice by the draw, and always kept.
    """
    outputs = simulation.outputs
    plain = np.asarray([base.certainty(one, Coverage()) for one in confidences])
    wanted, given = changed(outputs), _feature_rows(confidences, outputs.coverage)
    report: dict[str, Any] = {"kept": "confidence", "changed": round(float(wanted.mean()), 4)}
    number = outputs.output_kind == "number"
    if min(wanted.sum(), (~wanted).sum()) < MIN_OF_EACH:
        if not number:
            return Choice((), plain, report)
        constant = _constant(wanted)
        sure = np.full(len(wanted), replace(base, coefficients=constant).certainty(None, Coverage()))
        return Choice(constant, sure, report | {"kept": "constant"})
    crossed = _cross_fitted(given, wanted, outputs.draws)
    found = {"confidence": _metrics(simulation, plain), "logistic": _metrics(simulation, crossed)}
    gain = float(np.mean(found["logistic"]) - np.mean(found["confidence"]))
    report |= {"gain": round(gain, 5), "shares": list(SHARES)} | _rounded(found)
    if gain > 0 or number:
        return Choice(_fitted(given, wanted), crossed, report | {"kept": "logistic"})
    return Choice((), plain, report)


def _metrics(simulation: Simulation, certainties: Floats) -> list[float]:
    """The metric at each of SHARES, when the least certain sequences go on; the draw decides ties."""
    order = np.lexsort((simulation.outputs.draws, certainties))
    found = []
    for share in SHARES:
        escalated = np.zeros(len(order), dtype=bool)
        escalated[order[: round(share * len(order))]] = True
        found.append(simulation.metric(escalated))
    return found


def _feature_rows(confidences: Sequence[float | None], coverage: Sequence[Coverage]) -> Floats:
    return np.asarray([features(one, other) for one, other in zip(confidences, coverage, strict=True)])


def _fitted(given: Floats, wanted: Mask) -> tuple[float, ...]:
    """The coefficients of the logistic for features [N, 4], the first of which is 1."""
    if wanted.all() or not wanted.any():
        return _constant(wanted)
    model = LogisticRegression(max_iter=MAX_ITERATIONS).fit(given[:, 1:], wanted)
    return (float(model.intercept_[0]), *map(float, model.coef_[0]))


def _constant(wanted: Mask) -> tuple[float, ...]:
    """Coefficients that predict the same for every sequence: the share that changed, plus one of each."""
    odds = (float(wanted.sum()) + 1) / (float((~wanted).sum()) + 1)
    return (float(np.log(odds)), 0.0, 0.0, 0.0)


def _cross_fitted(given: Floats, wanted: Mask, draws: Floats) -> Floats:
    """One minus the probability of a change [S], each by a logistic fitted on the other folds. Sequences of
    the same text are in the same fold."""
    folds = (draws * FOLDS).astype(np.int64)
    sure = np.empty(len(wanted))
    for fold in np.unique(folds).tolist():
        coefficients = np.asarray(_fitted(given[folds != fold], wanted[folds != fold]))
        change = (given[folds == fold] @ coefficients).clip(-500, 500)
        sure[folds == fold] = 1 / (1 + np.exp(change))
    return sure


def _rounded(found: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    return {name: [round(one, 4) for one in values] for name, values in found.items()}

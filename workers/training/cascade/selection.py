"""The profile of a cascade: candidates by cutoff, and what serves (Tabi, section 5)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from inference.cascade.answer_plan import answer_plan
from inference.cascade.confidence import calibrated_threshold
from inference.cascade.dispatcher import AnswerPolicy, Coverage, Dispatcher, Level
from inference.cascade.platt_scaling import UNSCALED
from inference.cascade.profile import Candidate, CascadeProfile, LevelCosts, LevelProfile, Serving
from workers.training.cascade.calibration import (
    SEVERAL_CHOICES,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
    level_answers,
    reliability_of,
)
from workers.training.cascade.costs import text_costs
from workers.training.cascade.dispatcher_choice import Choice, choose_dispatcher
from workers.training.cascade.outputs import OutputsByLevel, joined
from workers.training.cascade.simulation import (
    Mask,
    Simulation,
    escalated_by,
    escalated_under,
    leave_one_out,
    metric_at,
    metric_of,
    same_within,
    standard_error,
)

MIN_ROWS: Final = 50
"""Dev rows below which nothing is fitted: temperatures are 1, and the level FULL serves."""
CUTOFFS: Final = tuple(round(0.95 - 0.1 * step, 2) for step in range(10))
SLOPE: Final = 40.0
"""Steep: a text goes on because it is not certain, and hardly ever by chance."""
MAX_LOSS: Final = 0.02
"""How much of the level FULL's metric may be lost at most, with a probability of 95 %."""
ONE_SIDED: Final = 1.645
"""Standard errors between a mean and its one-sided bound of 95 %."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Way:
    """What may serve, and what it came to on dev. standard_error: of its difference to the level FULL.
    without_each: its metric without each of the rows [E]."""

    serving: Serving
    metric: float
    milliseconds: float
    standard_error: float
    without_each: Floats


def choose(ways: Sequence[Way], full: Way) -> Serving:
    """The cheapest of the ways whose metric is within one standard error of the best (Breiman's rule), and
    whose loss against the level FULL is at most MAX_LOSS with a probability of 95 %. That level if there is
    none. Ways that cost as much do not count."""
    cheaper = [one for one in ways if one.milliseconds < full.milliseconds]
    best = max([full, *cheaper], key=lambda one: one.metric)

    def is_good(one: Way) -> bool:
        is_near = best.metric - one.metric <= standard_error(one.without_each, best.without_each)
        return is_near and full.metric - one.metric + ONE_SIDED * one.standard_error <= MAX_LOSS

    return min(filter(is_good, cheaper), key=lambda one: one.milliseconds, default=full).serving


def fit_profile(
    dev: OutputsByLevel, costs: LevelCosts, folds: Sequence[OutputsByLevel] = ()
) -> CascadeProfile:
    """Fit the cascade on a dev split, and on folds of training rows, each answered by a model that was
    trained without it. costs: of a text at each level."""
    return _Fitting(dev, costs, folds).profile()


class _Fitting:
    """Labelled rows, and what is fitted on them before candidates are compared. Below MIN_ROWS nothing is.

    Confidences are calibrated on the dev rows alone, which the model itself answers, unless they are too few.
    """

    def __init__(self, dev: OutputsByLevel, costs: LevelCosts, folds: Sequence[OutputsByLevel]) -> None:
        outputs = joined([dev, *(_as_sure_as(dev, fold) for fold in folds)])
        self._outputs, self._costs = outputs, costs
        self._calibrated_on = dev if len(dev.table) >= MIN_ROWS else outputs
        self._cross_fitted = len(outputs.table) - len(dev.table)
        self._enough = len(outputs.table) >= MIN_ROWS
        self._milliseconds = text_costs(costs, [len(one) for one, _ in outputs.sequences(Level.TABLE)])
        self._without_each = {level: leave_one_out(outputs, outputs.answers(level)) for level in Level}
        self._table, self._full = (self._level_profile(level) for level in Level)
        self._simulation = Simulation(outputs, (self._table.temperature, self._full.temperature))
        self._base, self._choice = self._fit_dispatcher()

    def profile(self) -> CascadeProfile:
        """Of what serves, and of the candidate that would serve if no level alone did."""
        outputs = self._outputs
        table, full = (
            Way(level, one.metric, one.milliseconds, one.standard_error, self._without_each[level])
            for level, one in ((Level.TABLE, self._table), (Level.FULL, self._full))
        )
        ways = [self._candidate(cutoff) for cutoff in (CUTOFFS if self._enough else CUTOFFS[:1])]
        serving = choose([table, *ways], full) if self._enough else Level.FULL
        candidates = [one.serving for one in ways if isinstance(one.serving, Candidate)]
        chosen = next(
            (one for one in (serving, choose(ways, full)) if isinstance(one, Candidate)),
            max(candidates, key=lambda one: one.metric),
        )
        kept = _undominated(candidates, chosen)
        return CascadeProfile(
            outputs.output_kind,
            self._table,
            self._full,
            tuple(map(self._with_platt, kept)),
            kept.index(chosen),
            AnswerPolicy[serving.name] if isinstance(serving, Level) else AnswerPolicy.CASCADE,
            self._base.threshold,
            self._base.coefficients,
            len(outputs.table),
            self._cross_fitted,
            {"dispatcher": self._choice.report, "max_loss": MAX_LOSS, "fitted": self._enough},
            sum(self._calibrated_on.coverage, Coverage()),
            same_within(outputs),
            self._costs,
        )

    def _level_profile(self, level: Level) -> LevelProfile:
        outputs = self._calibrated_on
        temperature = fit_temperature(outputs, level) if self._enough else 1.0
        answers = level_answers(outputs, level, temperature)
        platt = fit_platt(outputs.output_kind, *answers) if self._enough else UNSCALED
        before = reliability_of(outputs, level, 1.0)
        after = reliability_of(outputs, level, temperature, platt)
        return LevelProfile(
            metric_at(self._outputs, level),
            float(self._milliseconds[:, list(Level).index(level)].mean()),
            temperature,
            expected_calibration_error(after) if after else None,
            expected_calibration_error(before) if before else None,
            after,
            before,
            platt,
            0.0 if level is Level.FULL else self._error(self._without_each[level]),
        )

    def _fit_dispatcher(self) -> tuple[Dispatcher, Choice]:
        """What all candidates share."""
        outputs, table = self._outputs, self._table
        threshold = calibrated_threshold(outputs.kind.threshold, table.temperature)
        base = Dispatcher(outputs.output_kind, table.temperature, threshold, platt=table.platt)
        confidences = outputs.confidences(Level.TABLE, table.temperature, threshold)
        if not self._enough:
            sure = [0.0 if one is None else one for one in confidences]
            return base, Choice((), np.asarray(sure), {"kept": "confidence"})
        choice = choose_dispatcher(self._simulation, base, confidences)
        return replace(base, coefficients=choice.coefficients), choice

    def _candidate(self, cutoff: float) -> Way:
        escalated = self._escalated(cutoff)
        weight = self._simulation.weight(escalated)
        answers = self._simulation.answers(escalated, weight)
        metric, without_each = metric_of(self._outputs, answers), leave_one_out(self._outputs, answers)
        table, full = self._milliseconds.T
        milliseconds, error = float((table + escalated * full).mean()), self._error(without_each)
        share = float(escalated.mean())
        candidate = Candidate(cutoff, SLOPE, weight, metric, share, milliseconds, standard_error=error)
        return Way(candidate, metric, milliseconds, error, without_each)

    def _error(self, without_each: Floats) -> float:
        """The standard error of the difference to the level FULL. It is at least the weight of one row: that
        no answer on dev differs does not mean that none will."""
        return max(standard_error(without_each, self._without_each[Level.FULL]), 1 / len(without_each))

    def _with_platt(self, candidate: Candidate) -> Candidate:
        """With the Platt scaling of the answers to texts that go on; that of the level FULL where these do
        not tell."""
        outputs, simulation, weight = self._outputs, self._simulation, candidate.weight
        if not self._enough or outputs.output_kind not in SEVERAL_CHOICES:
            return candidate
        escalated = self._escalated(candidate.cutoff)
        goes_on = simulation.goes_on(escalated)
        goes_on[len(self._calibrated_on.table) :] = False  # cross-fitted rows are the last ones
        confidences = simulation.confidences(escalated, weight)[goes_on]
        right = np.asarray(outputs.rights(simulation.answers(escalated, weight)), dtype=bool)[goes_on]
        return replace(candidate, platt=fit_platt(outputs.output_kind, confidences, right, self._full.platt))

    def _escalated(self, cutoff: float) -> Mask:
        """Which dev sequences [S] this cutoff sends on."""
        dispatcher = replace(self._base, cutoff=cutoff, slope=SLOPE)
        return escalated_by(dispatcher, self._choice.certainties, self._outputs.draws)


def _as_sure_as(dev: OutputsByLevel, fold: OutputsByLevel) -> OutputsByLevel:
    """The fold with logits that need the temperatures of dev. A model of fewer rows is surer than it should
    be by more."""
    if len(dev.table) < MIN_ROWS:
        return fold
    table, full = (fit_temperature(fold, level) / fit_temperature(dev, level) for level in Level)
    return fold.divided(table, full)


def _undominated(candidates: Sequence[Candidate], chosen: Candidate) -> list[Candidate]:
    """By rising cost, those that are better than every cheaper one, and the chosen one."""
    kept: list[Candidate] = []
    best = -math.inf
    for one in sorted(
        dict.fromkeys(candidates), key=lambda one: (one.milliseconds, -one.metric, one != chosen)
    ):
        if one.metric > best or one == chosen:
            kept.append(one)
            best = max(best, one.metric)
    return kept


def level_metrics(outputs: OutputsByLevel, profile: CascadeProfile | None) -> dict[str, float]:
    """The task's metric of a split at each level and by the cascade, and the share that goes on."""
    plan = answer_plan(AnswerPolicy.CASCADE, outputs.output_kind, profile)
    escalated = escalated_under(plan, outputs)
    answers = Simulation.of(outputs, profile).answers(escalated, plan.weight)
    return {
        "table": metric_at(outputs, Level.TABLE),
        "cascade": metric_of(outputs, answers),
        "full": metric_at(outputs, Level.FULL),
        "escalated": float(escalated.mean()),
    }


def summary(profile: CascadeProfile) -> dict[str, Any]:
    """The figures of a profile that a report shows. cascade, escalated, loss: of what serves."""
    serving, chosen = profile.serving(), profile.candidate()
    measured, (loss, *interval) = profile.measured(serving), profile.loss(serving)
    return {
        "serves": profile.serves.value,
        "table": profile.table.metric,
        "cascade": measured.metric,
        "full": profile.full.metric,
        "escalated": profile.computed(serving),
        "loss": loss,
        "loss_interval": interval,
        "milliseconds": {
            "table": profile.table.milliseconds,
            "cascade": measured.milliseconds,
            "full": profile.full.milliseconds,
        },
        "cutoff": chosen.cutoff,
        "slope": chosen.slope,
        "weight": chosen.weight,
        "temperature": {"table": profile.table.temperature, "full": profile.full.temperature},
        "ece": {"table": profile.table.ece, "full": profile.full.ece},
        "ece_before": {"table": profile.table.ece_before, "full": profile.full.ece_before},
        "candidates": len(profile.candidates),
        "cross_fitted": profile.cross_fitted,
        **(profile.report or {}),
    }

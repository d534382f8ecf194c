"""The profile of a cascade: candidates by cutoff and slope, and the one that serves (Tabi, section 5)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from inference.cascade.confidence import calibrated_threshold
from inference.cascade.dispatcher import Dispatcher, Level
from inference.cascade.profile import Candidate, CascadeProfile, LevelProfile
from workers.training.cascade.calibration import expected_calibration_error, fit_temperature, reliability_of
from workers.training.cascade.change_model import Choice, choose_dispatcher
from workers.training.cascade.outputs import OutputsByLevel
from workers.training.cascade.simulation import Simulation, escalated_by, metric_at, metric_of

MIN_ROWS: Final = 50
"""Dev rows below which nothing is fitted: temperatures are 1, and the most cautious candidate serves."""
CUTOFFS: Final = tuple(round(0.95 - 0.05 * step, 2) for step in range(19))
SLOPES: Final = (10.0, 40.0)
TOLERANCE: Final = 0.002
"""How much of the level FULL's dev metric the candidate that serves may lose."""
PRUNINGS: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
PRUNING_LOSS: Final = 0.02
"""How much of its own dev metric the level FULL may lose by pruning, for a target that asks for no more,"""
SERVED_PRUNING_LOSS: Final = 0.003
"""and in the candidate that serves."""


def fit_profile(outputs: OutputsByLevel) -> CascadeProfile:
    """Fit the cascade on a dev split."""
    enough = len(outputs.table) >= MIN_ROWS
    levels = {level: _level_profile(outputs, level, fitted=enough) for level in Level}
    table, full = levels[Level.TABLE], levels[Level.FULL]
    threshold = calibrated_threshold(outputs.kind.threshold, table.temperature)
    temperatures = table.temperature, full.temperature
    simulation = Simulation(outputs, temperatures)
    base = Dispatcher(outputs.output_kind, table.temperature, threshold)
    confidences = outputs.confidences(Level.TABLE, table.temperature, threshold)
    if enough:
        choice = choose_dispatcher(simulation, base, confidences)
    else:
        sure = [0.0 if one is None else one for one in confidences]
        choice = Choice((), np.asarray(sure), {"kept": "confidence"})
    base = replace(base, coefficients=choice.coefficients)
    least = (table.metric + full.metric) / 2
    prunings = _prunings(outputs) if enough else {}
    measured = _measured(simulation, base, choice, least) if enough else []
    for pruning, found in prunings.items():
        measured += _measured(Simulation(found, temperatures), replace(base, pruning=pruning), choice, least)
    measured = measured or [_candidate(simulation, base, choice)]
    losses = {pruning: full.metric - metric_at(found, Level.FULL) for pruning, found in prunings.items()}
    served = [one for one in measured if losses.get(one.pruning, 0.0) <= SERVED_PRUNING_LOSS]
    chosen = _chosen(served or measured, full.metric)
    candidates = sorted({*_undominated(measured), chosen}, key=lambda one: (one.operations, one.metric))
    return CascadeProfile(
        outputs.output_kind,
        table,
        full,
        tuple(candidates),
        candidates.index(chosen),
        threshold,
        choice.coefficients,
        len(outputs.table),
        {
            "dispatcher": choice.report,
            "tolerance": TOLERANCE,
            "fitted": enough,
            "pruning_loss": {str(pruning): round(loss, 4) for pruning, loss in losses.items()},
        },
    )


def _level_profile(outputs: OutputsByLevel, level: Level, *, fitted: bool) -> LevelProfile:
    temperature = fit_temperature(outputs, level) if fitted else 1.0
    before, after = (reliability_of(outputs, level, one) for one in (1.0, temperature))
    operations = outputs.operations[:, list(Level).index(level)]
    return LevelProfile(
        metric_at(outputs, level),
        float(operations.mean()),
        temperature,
        expected_calibration_error(after) if after else None,
        expected_calibration_error(before) if before else None,
        after,
        before,
    )


def _prunings(outputs: OutputsByLevel) -> dict[float, OutputsByLevel]:
    """The outputs by rising pruning, until the level FULL loses more than PRUNING_LOSS."""
    found: dict[float, OutputsByLevel] = {}
    if outputs.pruned is None:
        return found
    least = metric_at(outputs, Level.FULL) - PRUNING_LOSS
    for pruning in PRUNINGS:
        one = outputs.pruned(pruning)
        if metric_at(one, Level.FULL) < least:
            break
        found[pruning] = one
    return found


def _measured(simulation: Simulation, base: Dispatcher, choice: Choice, least: float) -> list[Candidate]:
    """The candidates of each slope, by falling cutoff, until one is worse than `least`."""
    return [
        one for slope in SLOPES for one in _of_slope(simulation, replace(base, slope=slope), choice, least)
    ]


def _of_slope(simulation: Simulation, base: Dispatcher, choice: Choice, least: float) -> Iterator[Candidate]:
    for cutoff in CUTOFFS:
        found = _candidate(simulation, replace(base, cutoff=cutoff), choice)
        if found.metric < least:
            return
        yield found


def _candidate(simulation: Simulation, dispatcher: Dispatcher, choice: Choice) -> Candidate:
    escalated = escalated_by(dispatcher, choice.certainties, simulation.outputs.draws)
    return Candidate(
        dispatcher.cutoff,
        dispatcher.slope,
        simulation.weight(escalated),
        simulation.metric(escalated),
        float(escalated.mean()),
        simulation.operations(escalated),
        dispatcher.pruning,
    )


def _undominated(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """By rising cost, those that are better than every cheaper one."""
    kept: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: (one.operations, -one.metric)):
        if not kept or one.metric > kept[-1].metric:
            kept.append(one)
    return tuple(kept)


def _chosen(candidates: Sequence[Candidate], full: float) -> Candidate:
    """The cheapest within TOLERANCE of the level FULL, else the best."""
    undominated = _undominated(candidates)
    return next((one for one in undominated if one.metric >= full - TOLERANCE), undominated[-1])


def level_metrics(outputs: OutputsByLevel, profile: CascadeProfile) -> dict[str, float]:
    """The task's metric of a split at each level and by the cascade, and the share that goes on."""
    candidate = profile.candidate()
    dispatcher = profile.dispatcher(candidate)
    temperatures = profile.table.temperature, profile.full.temperature
    prunes = outputs.pruned if dispatcher.prunes else None
    simulation = Simulation(prunes(candidate.pruning) if prunes else outputs, temperatures)
    confidences = outputs.confidences(Level.TABLE, profile.table.temperature, profile.threshold)
    certainties = np.asarray(
        [dispatcher.certainty(*one) for one in zip(confidences, outputs.coverage, strict=True)]
    )
    escalated = escalated_by(dispatcher, certainties, outputs.draws)
    return {
        "table": metric_at(outputs, Level.TABLE),
        "cascade": metric_of(outputs, simulation.answers(escalated, candidate.weight)),
        "full": metric_at(outputs, Level.FULL),
        "escalated": float(escalated.mean()),
    }


def summary(profile: CascadeProfile) -> dict[str, Any]:
    """The figures of a profile that a report shows."""
    chosen = profile.candidate()
    return {
        "table": profile.table.metric,
        "cascade": chosen.metric,
        "full": profile.full.metric,
        "escalated": chosen.escalated,
        "cutoff": chosen.cutoff,
        "slope": chosen.slope,
        "weight": chosen.weight,
        "pruning": chosen.pruning,
        "operations": {
            "table": profile.table.operations,
            "cascade": chosen.operations,
            "full": profile.full.operations,
        },
        "temperature": {"table": profile.table.temperature, "full": profile.full.temperature},
        "ece": {"table": profile.table.ece, "full": profile.full.ece},
        "ece_before": {"table": profile.table.ece_before, "full": profile.full.ece_before},
        "candidates": len(profile.candidates),
        **(profile.report or {}),
    }

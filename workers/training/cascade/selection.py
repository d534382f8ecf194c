"""The profile of a cascade: candidates by cutoff and slope, and the one that serves (Tabi, section 5)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

import numpy as np

from inference.cascade.answer_plan import answer_plan
from inference.cascade.confidence import calibrated_threshold
from inference.cascade.dispatcher import AnswerPolicy, Coverage, Dispatcher, Level
from inference.cascade.platt_scaling import UNSCALED, PlattScaling
from inference.cascade.profile import Candidate, CascadeProfile, LevelProfile
from workers.training.cascade.calibration import (
    SEVERAL_CHOICES,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
    level_answers,
    reliability_of,
)
from workers.training.cascade.dispatcher_choice import Choice, choose_dispatcher
from workers.training.cascade.outputs import OutputsByLevel
from workers.training.cascade.simulation import (
    Mask,
    Simulation,
    escalated_by,
    escalated_under,
    metric_at,
    metric_of,
    same_within,
    standard_error,
)

MIN_ROWS: Final = 50
"""Dev rows below which nothing is fitted: temperatures are 1, and the most cautious candidate serves."""
CUTOFFS: Final = tuple(round(0.95 - 0.05 * step, 2) for step in range(19))
SLOPES: Final = (10.0, 40.0)
TOLERANCE: Final = 0.002
"""How much of the dev metric the candidate that serves may lose."""
PRUNINGS: Final = (0.6, 0.7, 0.8)
"""Of Tabi's 0.5 to 0.9: with 0.5 nearly all words are kept, with 0.9 too many answers are lost."""
PRUNING_LOSS: Final = 0.02
"""How much of its own dev metric the level FULL may lose by a pruning that is measured."""


def fit_profile(outputs: OutputsByLevel) -> CascadeProfile:
    """Fit the cascade on a dev split."""
    enough = len(outputs.table) >= MIN_ROWS
    levels = {level: _level_profile(outputs, level, fitted=enough) for level in Level}
    table, full = levels[Level.TABLE], levels[Level.FULL]
    threshold = calibrated_threshold(outputs.kind.threshold, table.temperature)
    temperatures = table.temperature, full.temperature
    whole = Simulation(outputs, temperatures)
    base = Dispatcher(outputs.output_kind, table.temperature, threshold, platt=table.platt)
    confidences = outputs.confidences(Level.TABLE, table.temperature, threshold)
    if enough:
        choice = choose_dispatcher(whole, base, confidences)
    else:
        sure = [0.0 if one is None else one for one in confidences]
        choice = Choice((), np.asarray(sure), {"kept": "confidence"})
    base = replace(base, coefficients=choice.coefficients)
    least = (table.metric + full.metric) / 2
    simulations = {0.0: whole}
    if enough:
        simulations |= {pruning: Simulation(one, temperatures) for pruning, one in _prunings(outputs).items()}
    measured = _measured(simulations, base, choice, least) if enough else []
    chosen = _chosen(simulations, base, choice, measured) if measured else _candidate(whole, base, choice)
    candidates = _undominated([*measured, chosen], chosen)
    place = candidates.index(chosen)
    if enough:
        candidates = tuple(
            _calibrated(simulations[one.pruning], base, choice, full.platt, one) for one in candidates
        )
    return CascadeProfile(
        outputs.output_kind,
        table,
        full,
        candidates,
        place,
        threshold,
        choice.coefficients,
        len(outputs.table),
        {
            "dispatcher": choice.report,
            "tolerance": TOLERANCE,
            "fitted": enough,
            "pruning_loss": {
                str(pruning): round(full.metric - metric_at(one.outputs, Level.FULL), 4)
                for pruning, one in simulations.items()
                if pruning
            },
        },
        sum(outputs.coverage, Coverage()),
        same_within(outputs),
    )


def _level_profile(outputs: OutputsByLevel, level: Level, *, fitted: bool) -> LevelProfile:
    temperature = fit_temperature(outputs, level) if fitted else 1.0
    answers = level_answers(outputs, level, temperature)
    platt = fit_platt(outputs.output_kind, *answers) if fitted else UNSCALED
    before, after = reliability_of(outputs, level, 1.0), reliability_of(outputs, level, temperature, platt)
    operations = outputs.operations[:, list(Level).index(level)]
    return LevelProfile(
        metric_at(outputs, level),
        float(operations.mean()),
        temperature,
        expected_calibration_error(after) if after else None,
        expected_calibration_error(before) if before else None,
        after,
        before,
        platt,
    )


def _prunings(outputs: OutputsByLevel) -> dict[float, OutputsByLevel]:
    """The outputs by rising pruning, until the level FULL loses more than PRUNING_LOSS."""
    if outputs.read_pruned is None:
        return {}
    least = metric_at(outputs, Level.FULL) - PRUNING_LOSS
    pruned = ((pruning, outputs.pruned_by(pruning)) for pruning in PRUNINGS)
    return dict(takewhile(lambda pair: metric_at(pair[1], Level.FULL) >= least, pruned))


def _measured(
    simulations: Mapping[float, Simulation], base: Dispatcher, choice: Choice, least: float
) -> list[Candidate]:
    """The candidates of each pruning and slope, by falling cutoff, until one is worse than `least`."""
    return [
        one
        for pruning, simulation in simulations.items()
        for slope in SLOPES
        for one in _of_slope(simulation, replace(base, slope=slope, pruning=pruning), choice, least)
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
        pruning=dispatcher.pruning,
    )


def _calibrated(
    simulation: Simulation, base: Dispatcher, choice: Choice, full: PlattScaling, candidate: Candidate
) -> Candidate:
    """The candidate with the Platt scaling of the answers to texts that go on; that of the level FULL where
    these do not tell."""
    outputs, weight = simulation.outputs, candidate.weight
    if outputs.output_kind not in SEVERAL_CHOICES:
        return candidate
    escalated = _escalated(outputs, base, choice, candidate)
    goes_on = simulation.goes_on(escalated)
    confidences = simulation.confidences(escalated, weight)[goes_on]
    right = np.asarray(outputs.rights(simulation.answers(escalated, weight)), dtype=bool)[goes_on]
    return replace(candidate, platt=fit_platt(outputs.output_kind, confidences, right, full))


def _escalated(outputs: OutputsByLevel, base: Dispatcher, choice: Choice, candidate: Candidate) -> Mask:
    """Which dev sequences [S] this candidate sends on."""
    dispatcher = replace(base, cutoff=candidate.cutoff, slope=candidate.slope)
    return escalated_by(dispatcher, choice.certainties, outputs.draws)


def _undominated(candidates: Sequence[Candidate], chosen: Candidate) -> tuple[Candidate, ...]:
    """By rising cost, those that are better than every cheaper one, and the chosen one."""
    kept: list[Candidate] = []
    best = -math.inf
    for one in sorted(
        dict.fromkeys(candidates), key=lambda one: (one.operations, -one.metric, one != chosen)
    ):
        if one.metric > best or one == chosen:
            kept.append(one)
            best = max(best, one.metric)
    return tuple(kept)


def _chosen(
    simulations: Mapping[float, Simulation], base: Dispatcher, choice: Choice, measured: Sequence[Candidate]
) -> Candidate:
    """The cheapest that is safe, from the most cautious candidate (the first) down each slope, without
    pruning and with ever more of it.

    A candidate is safe if its metric, less one standard error of the difference, is at most TOLERANCE below
    that of the level FULL or of the most cautious candidate. The differences are paired by rows. That to FULL
    includes what the ensemble changes in texts that go on anyway, which on a small split hides all else; that
    to the most cautious candidate is only of the texts that no longer go on, or are pruned. The first
    candidate that is not safe ends its slope, and more pruning if it is the first of its slope, because the
    cheapest of many is easily safe by chance (fixed-sequence testing).
    """
    outputs = simulations[0.0].outputs

    def answers(one: Candidate) -> list[Any]:
        return simulations[one.pruning].answers(_escalated(outputs, base, choice, one), one.weight)

    references = [outputs.answers(Level.FULL), answers(measured[0])]
    metrics = [metric_of(outputs, reference) for reference in references]

    def is_safe(one: Candidate) -> bool:
        given = answers(one)
        return any(
            metric - one.metric + standard_error(outputs, given, reference) <= TOLERANCE
            for metric, reference in zip(metrics, references, strict=True)
        )

    safe = [measured[0]]
    for slope in SLOPES:
        for pruning in simulations:
            of_both = (one for one in measured if (one.slope, one.pruning) == (slope, pruning))
            found = list(takewhile(is_safe, of_both))
            if not found:
                break
            safe += found
    return min(safe, key=lambda one: one.operations)


def level_metrics(outputs: OutputsByLevel, profile: CascadeProfile | None) -> dict[str, float]:
    """The task's metric of a split at each level and by the cascade, and the share that goes on."""
    plan = answer_plan(AnswerPolicy.CASCADE, outputs.output_kind, profile)
    escalated = escalated_under(plan, outputs)
    answers = Simulation.of(outputs.pruned_by(plan.pruning), profile).answers(escalated, plan.weight)
    return {
        "table": metric_at(outputs, Level.TABLE),
        "cascade": metric_of(outputs, answers),
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

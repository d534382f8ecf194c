"""The frontier's figures from made-up outputs and costs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.accuracy.data import DATASETS
from benchmarks.frontier.figures import MISSING, Figures
from benchmarks.frontier.levels import CUTOFFS, LevelFigures
from benchmarks.frontier.measurements import LOSSES, Cell, Found, cascade_name
from benchmarks.frontier.path_flips import flip_shares
from inference.cascade.answer_plan import AnswerPlan
from inference.cascade.dispatcher import Level
from inference.cascade.profile import Candidate, CascadeProfile
from tests.unit.workers.training.cascade_world import FULL_COST, TABLE_COST, classified, made_up
from workers.training.cascade.selection import fit_profile


@pytest.fixture(scope="module")
def profile() -> CascadeProfile:
    """Of a model that is overconfident on both levels, and right more often in full."""
    return fit_profile(classified(400, seed=1, sharpness=3.0))


@pytest.fixture(scope="module")
def figures(profile: CascadeProfile) -> LevelFigures:
    """Of other texts of the same kind."""
    return LevelFigures(classified(1200, seed=2, sharpness=3.0), profile)


def plan_of(profile: CascadeProfile, candidate: Candidate) -> AnswerPlan:
    """Whatever the candidate costs."""
    return AnswerPlan(Level.TABLE, profile.dispatcher(candidate), candidate.weight, candidate.platt)


def test_a_higher_cutoff_answers_fewer_texts_early_and_costs_more(figures: LevelFigures) -> None:
    found = figures.by_cutoff()
    assert [one["cutoff"] for one in found] == list(CUTOFFS)
    early = [one["early"] for one in found]
    assert early == sorted(early, reverse=True)
    for one in found:
        assert one["operations"] == pytest.approx(TABLE_COST + (1 - one["early"]) * FULL_COST)


def test_a_cascade_that_sends_nothing_on_answers_as_the_tables(
    figures: LevelFigures, profile: CascadeProfile
) -> None:
    nothing = replace(profile.candidate(), cutoff=-10.0, slope=1000.0)
    found, table = figures.cascade(plan_of(profile, nothing)), figures.level(Level.TABLE)
    assert found["escalated"] == 0
    for name in ("metric", "operations", "ece", "ece_before"):
        assert found[name] == pytest.approx(table[name])


def test_a_pruned_cascade_is_measured_on_pruned_texts(profile: CascadeProfile) -> None:
    """Of which the level full knows no more than the tables, and costs half."""
    outputs = classified(1200, seed=2, sharpness=3.0)
    pruned = replace(outputs, full=outputs.table, operations=outputs.operations * np.asarray([1, 0.5]))
    figures = LevelFigures(replace(outputs, read_pruned=lambda _: pruned), profile)
    candidate = replace(profile.candidate(), pruning=0.5)
    found, whole = (figures.cascade(plan_of(profile, one)) for one in (candidate, profile.candidate()))
    assert (found["escalated"], found["pruning"]) == (whole["escalated"], 0.5)
    assert found["metric"] < whole["metric"]
    assert found["operations"] == pytest.approx(TABLE_COST + found["escalated"] * FULL_COST / 2)
    escalated, plain = (figures.by_part(one)["escalated"] for one in (candidate, profile.candidate()))
    assert escalated["pruned"] == escalated["table"]
    assert escalated["full"] == plain["full"] == plain["pruned"]


def test_numbers_have_no_confidence_to_answer_early_by() -> None:
    found = LevelFigures(made_up("regression", 300, seed=1), fit_profile(made_up("regression", 300)))
    assert found.by_cutoff() == []
    assert found.level(Level.TABLE)["ece"] is None


def levels(full: float, cascade: float, *, rows: int = 2000, ece: float = 0.02) -> dict[str, Any]:
    """As `level_figures` gives them, of a table that is 5 points below the level full."""
    level = {"metric": full, "operations": 200.0, "ece": ece, "ece_before": 0.1}
    return {
        "rows": rows,
        "table": {**level, "metric": full - 0.05, "operations": 100.0},
        "full": level,
        "cascade": {
            cascade_name(loss): {
                **level,
                "metric": cascade,
                "escalated": 0.25,
                "pruning": 0.0,
                "operations": 150.0,
            }
            for loss in LOSSES
        },
        "dedicated_operations": 180.0,
        "by_cutoff": [],
        "by_part": {
            part: dict.fromkeys(("table", "full", "pruned", "ensemble"), 0.5)
            for part in ("early", "escalated")
        },
    }


def costs(*milliseconds: float) -> dict[str, dict[str, Any]]:
    """As `serving_cost` gives them: so many of the level full in each repeat, half of it by the table."""
    waits = {"p50_ms": 1.0, "p95_ms": 2.0, "texts_per_s": 100.0}

    def of(share: float, lone_ms: float) -> dict[str, Any]:
        return {
            **waits,
            "cpu_ms": [share * one for one in milliseconds],
            "lone_ms": lone_ms,
            "escalated": 0.25,
        }

    cascades = {cascade_name(loss): of(0.8, 6.0) for loss in LOSSES}
    return {"dedicated": of(0.9, 9.0), "full": of(1.0, 10.0), "table": of(0.5, 5.0), **cascades}


def cell(
    name: str, seed: int, found: Mapping[str, Any] | None, cost: Mapping[str, Any] | None = None
) -> Cell:
    return Cell(DATASETS[name], seed, 0.91, 0.9, found, cost)


def test_means_are_of_datasets_and_theirs_of_seeds() -> None:
    cells = [
        cell("sst2", 0, levels(0.90, 0.89)),
        cell("sst2", 1, levels(0.90, 0.87)),
        cell("mrpc", 0, levels(0.80, 0.80)),
    ]
    found = Figures(Found(cells, {})).figures()
    assert found["cascade_drop"] == pytest.approx(1.0)
    assert found["table_drop"] == pytest.approx(5.0)
    assert found["full_drop"] == pytest.approx(6.0)
    assert found["missing_cells"] == 0


def test_costs_are_compared_within_each_repeat_and_beside_their_bound() -> None:
    found = Figures(Found([cell("sst2", 0, levels(0.9, 0.9), costs(10.0, 30.0, 20.0))], {})).figures()
    assert found["cascade_vs_adapter"] == pytest.approx(1 / 0.8)
    assert found["cascade_vs_adapter_bound"] == pytest.approx(1 / (0.5 + 0.25))
    assert found["cascade_vs_adapter_operations"] == pytest.approx(200 / 150)
    assert found["latency_reduction"] == pytest.approx(0.4)


def test_cells_that_are_not_covered_are_marked_and_counted() -> None:
    figures = Figures(Found([cell("sst2", 0, levels(0.9, 0.9)), cell("mrpc", 0, None)], {}))
    first = {row["method"]: row for row in figures.tables()["Test metric in points against cost"]}
    assert first["dedicated"]["mrpc"] == "91.0"
    assert first["table"]["mrpc"] == first["table"]["CPU ms a text"] == MISSING
    assert figures.figures()["missing_cells"] == 5
    assert "cascade_vs_adapter" not in figures.figures()


def test_a_text_flips_if_any_path_answers_otherwise_than_alone() -> None:
    alone = [("table", "a"), ("table", "b"), ("full", "a"), ("table", "a")]
    batch = [("table", "a"), ("table", "c"), ("full", "a"), ("table", "a")]
    load = [("table", "a"), ("table", "c"), ("table", "a"), ("table", "a")]
    assert flip_shares(alone, {"batch": batch, "load": load}) == {"batch": 0.25, "load": 0.5, "any": 0.5}

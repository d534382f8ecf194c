"""The frontier's figures from made-up results and costs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.accuracy.comparison import MISSING
from benchmarks.accuracy.data import DATASETS
from benchmarks.frontier.figures import CALIBRATED_ROWS, Figures
from benchmarks.frontier.measurements import Cell, Found
from benchmarks.frontier.path_flips import flip_shares


def result(full: float, default: float, table: float = 0.8, *, escalated: float = 0.25) -> dict[str, Any]:
    """As `run_test` gives it."""
    levels = {"table": table, "cascade": default, "full": full, "escalated": escalated}
    return {"test": default, "levels": levels, "rows": CALIBRATED_ROWS, "ece": 0.02}


def cost(*full_ms: float) -> dict[str, dict[str, Any]]:
    """As `serving_cost` gives it: so many milliseconds of the level full in each repeat, half of it by the
    table, four fifths by default."""
    shares = {"full": 1.0, "table": 0.5, "default": 0.8}
    return {
        way: {"cpu_ms": [share * one for one in full_ms], "escalated": 0.25 if way == "default" else 0.0}
        for way, share in shares.items()
    }


def cell(name: str, seed: int = 0, model: Mapping[str, Any] | None = None, **more: Any) -> Cell:
    """With a dedicated model of 91 points."""
    return Cell(DATASETS[name], seed, {"test": 0.91}, model, **more)


def figures(*cells: Cell) -> dict[str, float]:
    return Figures(Found(cells, {})).figures()


def test_means_are_of_datasets_and_theirs_of_seeds() -> None:
    found = figures(
        cell("sst2", 0, result(0.90, 0.89)),
        cell("sst2", 1, result(0.90, 0.87)),
        cell("chemprot", 0, result(0.80, 0.80, escalated=0.05)),
    )
    assert found["cascade_drop"] == pytest.approx((2 + 0) / 2)
    assert found["table_drop"] == pytest.approx((10 + 0) / 2)
    assert found["default_drop"] == pytest.approx((3 + 11) / 2)
    assert found["table_share"] == pytest.approx((0.75 + 0.95) / 2)
    assert found["ece_after"] == pytest.approx(0.02)
    assert found["missing_cells"] == 0


def test_texts_in_pairs_stand_apart() -> None:
    found = figures(cell("sst2", 0, result(0.9, 0.9)), cell("sick-nli", 0, result(0.8, 0.7)))
    assert (found["cascade_drop"], found["cascade_drop_pairs"]) == pytest.approx((0, 10))


def test_processor_times_are_compared_within_each_repeat() -> None:
    found = figures(cell("sst2", 0, result(0.9, 0.9), cost=cost(10.0, 30.0, 20.0)))
    assert found["table_vs_full_ms"] == pytest.approx(2)
    assert found["cascade_vs_full_ms"] == pytest.approx(1 / 0.8)
    assert found["cascade_efficiency"] == pytest.approx((0.5 + 0.25) / 0.8)


def test_what_a_domain_gains_is_counted_where_there_is_one() -> None:
    both = cell("chemprot", 0, result(0.8, 0.8), on_root=result(0.8, 0.79))
    assert figures(both, cell("sst2", 0, result(0.9, 0.9)))["domain_gain"] == pytest.approx(1)
    assert "domain_gain" not in figures(cell("sst2", 0, result(0.9, 0.9)))


def test_the_calibration_of_few_rows_does_not_count() -> None:
    few = result(0.9, 0.9) | {"rows": CALIBRATED_ROWS - 1}
    assert "ece_after" not in figures(cell("citation_intent", 0, few))


def test_what_is_missing_is_marked_counted_and_left_out_of_the_figures() -> None:
    cells = [cell("sst2", 0, result(0.9, 0.9)), replace(cell("mrpc"), dedicated=None)]
    found = Figures(Found(cells, {"batch": 0.0, "any": 0.001}, mixer_cost=0.09))
    rows = {row["dataset"]: row for row in found.rows()}
    assert (rows["sst2"]["seeds"], rows["mrpc"]["seeds"]) == (1, 0)
    assert rows["mrpc"]["table"] == rows["sst2"]["table, CPU ms"] == MISSING
    assert rows["sst2"]["every parameter"] == pytest.approx(91)
    assert found.figures()["missing_cells"] == 2
    assert not {"cascade_vs_full_ms", "table_drop_pairs"} & found.figures().keys()
    assert (found.figures()["path_flips"], found.figures()["mixer_cost"]) == (0.001, 0.09)


def test_a_text_flips_if_any_path_answers_otherwise_than_alone() -> None:
    alone = [("table", "a"), ("table", "b"), ("full", "a"), ("table", "a")]
    batch = [("table", "a"), ("table", "c"), ("full", "a"), ("table", "a")]
    load = [("table", "a"), ("table", "c"), ("table", "a"), ("table", "a")]
    assert flip_shares(alone, {"batch": batch, "load": load}) == {"batch": 0.25, "load": 0.5, "any": 0.5}

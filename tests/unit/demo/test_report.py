"""The demo's report: its figures keep their names, whatever happened."""

from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks import harness
from benchmarks.product.demo_report import QUALITIES, report_of, with_writing
from demo.generative_traffic import WritingResult, Written
from demo.traffic import TrafficResult

FIGURES = {
    "models",
    "mean_metric",
    "mean_majority",
    "requests",
    "failed",
    "tenants_per_batch",
    "table_share",
    "escalated_share",
    "full_share",
    "texts_per_s_table",
    "texts_per_s_cascade",
    "texts_per_s_full",
}
ROWS = [
    {"Model": "a/b", "trained": 80.0, "quick": 70.0, "majority": 20.0},
    {"Model": "c/d", "trained": 60.0, "quick": 55.0, "majority": 10.0},
]
WRITERS = [{"Model": "e/f"}, {"Model": "g/h"}]
TABLE, ESCALATED, FULL = {"level": "table"}, {"level": "full", "table": {}}, {"level": "full"}


def answer(*, tenants: int, results: Sequence[dict[str, Any]] = (TABLE, TABLE)) -> dict[str, Any]:
    return {"batch": {"rows": 4, "tenants": tenants}, "results": results}


def report(cascade: TrafficResult, rows: list[harness.Row] = ROWS) -> harness.Report:
    """Of this run in the cascade, and of runs of one request in the other ways."""
    others = {way: TrafficResult([answer(tenants=9)], seconds=0.5) for way in QUALITIES}
    return report_of(rows, {**others, "cascade": cascade}, {})


def test_the_figures_are_those_of_the_cascade_and_the_requests_of_all_runs() -> None:
    answers = [answer(tenants=1), answer(tenants=3, results=[ESCALATED, FULL])]
    found = report(TrafficResult(answers, ["a/b: HTTP 500"], seconds=2.0))
    assert set(found.figures) == FIGURES | {"quick_gap_points"}
    assert found.figures["tenants_per_batch"] == 2.0
    shares = [found.figures[name] for name in ("table_share", "escalated_share", "full_share")]
    assert shares == [0.5, 0.25, 0.25]
    assert [found.figures[f"texts_per_s_{way}"] for way in QUALITIES] == [4.0, 2.0, 4.0]
    assert (found.figures["requests"], found.figures["failed"]) == (5, 1)
    assert (found.figures["mean_metric"], found.figures["mean_majority"]) == (70.0, 15.0)
    assert found.figures["quick_gap_points"] == 7.5
    assert found.failures == ["a/b: HTTP 500"]


def test_models_without_a_quick_version_have_no_gap() -> None:
    rows: list[harness.Row] = [row | {"quick": ""} for row in ROWS]
    assert set(report(TrafficResult([answer(tenants=1)]), rows).figures) == FIGURES


def test_a_run_without_answers_has_every_figure_and_is_a_failure() -> None:
    found = report(TrafficResult())
    assert set(found.figures) == FIGURES | {"quick_gap_points"}
    assert found.failures == ["No request was answered: cascade."]


def test_generative_models_add_rows_with_a_text_and_figures() -> None:
    before = report(TrafficResult([answer(tenants=1)]))
    results = [
        WritingResult([Written("a", "b", 30), Written("c", "d", 10)], ["e/f: HTTP 500"], seconds=2.0),
        WritingResult([Written("i", "j", 10)], seconds=1.0),
    ]
    found = with_writing(before, list(zip(WRITERS, results, strict=True)))
    assert found.figures.items() - before.figures.items() == {
        ("generative_models", 2),
        ("prompts", 4),
        ("prompts_failed", 1),
    }
    assert found.rows == [
        *ROWS,
        {"Model": "e/f", "tokens/s": 20.0, "samples": [{"prompt": "a", "text": "b"}]},
        {"Model": "g/h", "tokens/s": 10.0, "samples": [{"prompt": "i", "text": "j"}]},
    ]
    assert found.failures == ["e/f: HTTP 500"]


@pytest.mark.parametrize("result", [WritingResult(), WritingResult(failures=["e/f: HTTP 500"])])
def test_a_model_that_wrote_nothing_is_a_failure(result: WritingResult) -> None:
    found = with_writing(report(TrafficResult([answer(tenants=1)])), [(WRITERS[0], result)])
    assert found.failures == [*result.failures, "e/f: no prompt was answered."]

"""The demo's report: its figures keep their names, whatever happened."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import harness
from benchmarks.product.demo_report import report_of
from demo.traffic import TrafficResult

FIGURES = {
    "models",
    "mean_metric",
    "mean_majority",
    "requests",
    "failed",
    "tenants_per_batch",
    "rows_per_batch",
    "hit_trigram",
    "hit_bigram",
    "hit_unigram",
    "hit_computed",
    "texts_whole",
    "ms_queue",
    "ms_retrieval",
    "ms_adapter_load",
    "ms_compute",
    "ms_total",
    "seconds_total",
}
ROWS = [{"Model": "a/b", "test": 80.0, "majority": 20.0}, {"Model": "c/d", "test": 60.0, "majority": 10.0}]


def answer(*, tenants: int, trigram: int, unigram: int, whole_rows: int = 0) -> dict[str, Any]:
    timings = dict.fromkeys(("queue", "retrieval", "adapter_load", "compute", "total"), 2.0)
    return {
        "batch": {"rows": 4, "tenants": tenants},
        "plot": {
            "trigram": trigram,
            "bigram": 0,
            "unigram": unigram,
            "computed": 0,
            "whole_rows": whole_rows,
            "hit_ratio": None,  # as for texts that were computed whole
        },
        "usage": {"inputs": 2},
        "timings_ms": timings,
    }


def report(result: TrafficResult) -> harness.Report:
    return report_of(ROWS, result, settings={}, seconds=1.5)


def test_the_figures_are_means_over_requests_and_shares_of_all_fragments() -> None:
    answers = [
        answer(tenants=1, trigram=30, unigram=10),
        answer(tenants=3, trigram=30, unigram=30, whole_rows=1),
    ]
    found = report(TrafficResult(answers, ["a/b: HTTP 500"]))
    assert set(found.figures) == FIGURES
    assert found.figures["tenants_per_batch"] == 2.0
    assert found.figures["hit_trigram"] == pytest.approx(0.6)
    assert found.figures["texts_whole"] == pytest.approx(0.25)
    assert (found.figures["requests"], found.figures["failed"]) == (3, 1)
    assert (found.figures["mean_metric"], found.figures["mean_majority"]) == (70.0, 15.0)
    assert found.failures == ["a/b: HTTP 500"]


def test_a_run_without_answers_has_every_figure_and_is_a_failure() -> None:
    found = report(TrafficResult())
    assert set(found.figures) == FIGURES
    assert found.failures == ["No request was answered."]


def test_the_json_holds_what_the_contract_names(tmp_path: Path) -> None:
    harness.write_json(
        report(TrafficResult([answer(tenants=1, trigram=1, unigram=1)])), tmp_path / "out.json"
    )
    document = json.loads((tmp_path / "out.json").read_text())
    assert set(document) == {"benchmark", "commit", "machine", "settings", "rows", "figures"}
    assert document["benchmark"] == "demo_report"
    assert document["rows"] == ROWS

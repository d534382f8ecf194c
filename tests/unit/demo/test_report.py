"""The demo's report: its figures keep their names, whatever happened."""

from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks import harness
from benchmarks.product.demo_report import report_of, with_writing
from demo.generative_traffic import WritingResult, Written
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
    "table_share",
    "escalated_share",
    "full_share",
    "ms_queue",
    "ms_retrieval",
    "ms_adapter_load",
    "ms_compute",
    "ms_total",
    "seconds_total",
}
ROWS = [{"Model": "a/b", "test": 80.0, "majority": 20.0}, {"Model": "c/d", "test": 60.0, "majority": 10.0}]


WRITING_FIGURES = {"generative_models", "mean_rouge_l", "prompts", "prompts_failed", "tokens_per_s"}
WRITING_ROWS = [{"Model": "e/f", "ROUGE-L": 30.0}, {"Model": "g/h", "ROUGE-L": 20.0}]


TABLE, ESCALATED, FULL = {"level": "table"}, {"level": "full", "table": {}}, {"level": "full"}


def answer(
    *, tenants: int, trigram: int, unigram: int, results: Sequence[dict[str, Any]] = (TABLE, TABLE)
) -> dict[str, Any]:
    timings = dict.fromkeys(("queue", "retrieval", "adapter_load", "compute", "total"), 2.0)
    return {
        "batch": {"rows": 4, "tenants": tenants},
        "plot": {
            "trigram": trigram,
            "bigram": 0,
            "unigram": unigram,
            "hit_ratio": None,  # as for texts that were computed at once
        },
        "model": {"name": "a/b"},
        "results": results,
        "usage": {"inputs": len(results)},
        "timings_ms": timings,
    }


def report(result: TrafficResult) -> harness.Report:
    return report_of(ROWS, result, settings={}, seconds=1.5)


def test_the_figures_are_means_over_requests_and_shares_of_all_fragments() -> None:
    answers = [
        answer(tenants=1, trigram=30, unigram=10),
        answer(tenants=3, trigram=30, unigram=30, results=[ESCALATED, FULL]),
    ]
    found = report(TrafficResult(answers, ["a/b: HTTP 500"]))
    assert set(found.figures) == FIGURES
    assert found.figures["tenants_per_batch"] == 2.0
    assert found.figures["hit_trigram"] == pytest.approx(0.6)
    shares = [found.figures[name] for name in ("table_share", "escalated_share", "full_share")]
    assert shares == [0.5, 0.25, 0.25]
    assert (found.figures["requests"], found.figures["failed"]) == (3, 1)
    assert (found.figures["mean_metric"], found.figures["mean_majority"]) == (70.0, 15.0)
    assert found.failures == ["a/b: HTTP 500"]


def test_each_model_has_the_shares_of_its_own_texts() -> None:
    answers = [answer(tenants=1, trigram=1, unigram=1, results=[TABLE, ESCALATED, TABLE, FULL])]
    first, second = report(TrafficResult(answers)).rows
    assert (first["table %"], first["escalated %"], first["full %"]) == (50.0, 25.0, 25.0)
    assert (second["table %"], second["escalated %"], second["full %"]) == (0.0, 0.0, 0.0)
    assert ROWS[0] == {"Model": "a/b", "test": 80.0, "majority": 20.0}


def test_a_run_without_answers_has_every_figure_and_is_a_failure() -> None:
    found = report(TrafficResult())
    assert set(found.figures) == FIGURES
    assert found.failures == ["No request was answered."]


def test_generative_models_add_rows_and_figures() -> None:
    before = report(TrafficResult([answer(tenants=1, trigram=1, unigram=1)]))
    written = WritingResult([Written("a", "b", 30), Written("c", "d", 10)], ["e/f: HTTP 500"], seconds=2.0)
    found = with_writing(before, WRITING_ROWS, written, seconds=9.0)
    assert set(found.figures) == FIGURES | WRITING_FIGURES
    assert (found.figures["mean_rouge_l"], found.figures["tokens_per_s"]) == (25.0, 20.0)
    assert (found.figures["prompts"], found.figures["prompts_failed"]) == (3, 1)
    assert found.figures["seconds_total"] == 9.0
    assert found.rows == [*before.rows, *WRITING_ROWS]
    assert found.failures == ["e/f: HTTP 500"]


def test_models_that_wrote_nothing_are_a_failure() -> None:
    before = report(TrafficResult([answer(tenants=1, trigram=1, unigram=1)]))
    assert with_writing(before, WRITING_ROWS, WritingResult(), seconds=1.0).failures == [
        "No prompt was answered."
    ]

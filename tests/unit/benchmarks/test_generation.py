"""The generation benchmark at its tiniest: every popularity is measured, and a lost request is counted."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.serving.generation.__main__ import main
from benchmarks.serving.generation.engine import Asked, lost
from benchmarks.serving.generation.workload import MEDIANS, lengths
from benchmarks.serving.popularity import POPULARITIES
from inference.generation.requests import FinishReason, GenerationError, TokenEvent

TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,90,20\n2023-11-16,5,3\n"
END, ERROR = FinishReason.LENGTH, FinishReason.ERROR


def event(request: str, index: int, reason: FinishReason | None = None) -> TokenEvent:
    return TokenEvent(request_id=request, index=index, token=7, finish_reason=reason)


def test_a_request_without_exactly_one_end_or_all_of_its_tokens_is_lost() -> None:
    asked = [Asked(model=0, prompt=4, answer=2)] * 5
    events = [
        *(event("good", 0), event("good", 1, END)),
        *(event("endless", 0), event("endless", 1)),
        *(event("twice", 0, END), event("twice", 1, END)),
        event("short", 0, END),
        TokenEvent(
            request_id="failed",
            index=0,
            finish_reason=ERROR,
            error=GenerationError("inference_failed", "the model could not be computed"),
        ),
    ]
    ids = ["good", "endless", "twice", "short", "failed"]
    assert [lost([id_], asked[:1], events) for id_ in ids] == [0, 1, 1, 1, 1]
    assert lost(ids, asked, events) == 4


def test_lengths_are_those_of_the_trace_divided_by_the_scale(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    assert lengths(trace, 10).tolist() == [[9, 2], [1, 1]]


def test_without_a_trace_lengths_are_drawn_with_its_medians(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HMI_DATA_DIR", str(tmp_path / "nothing"))
    drawn = lengths(None, 1)
    assert np.median(drawn, axis=0) == pytest.approx(MEDIANS, rel=0.1)
    assert (drawn == lengths(None, 1)).all()
    with pytest.raises(FileNotFoundError):
        lengths(tmp_path / "no_trace.csv", 1)


@pytest.mark.thorough
def test_the_command_measures_every_popularity_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "benchmarks"))
    trace, told = tmp_path / "trace.csv", tmp_path / "generation.json"
    trace.write_text(TRACE)
    small = ["--shape", "tiny", "--rows", "4", "--requests", "4", "--repeats", "1", "--tenants", "1", "9"]
    where = ["--device", "cpu", "--dtype", "float32", "--trace", str(trace), "--json", str(told)]
    assert main(["--quick", "--no-peers", *small, *where]) == 0
    document = json.loads(told.read_text())
    measured = {(row["models"], row["what"]) for row in document["rows"]}
    assert measured >= {
        (name, what) for name in POPULARITIES for what in ("decoding", "requests of 9 tenants")
    }
    assert document["figures"].keys() >= {"distinct_vs_identical", "lora_overhead_per_token"}
    assert document["figures"]["lost"] == 0
    assert all(row["ms a token"] > 0 for row in document["rows"])

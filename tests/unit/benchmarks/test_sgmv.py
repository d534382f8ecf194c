"""SGMV beside its baselines: the shapes of the workloads, the work counted, and a run."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.serving import sgmv
from benchmarks.serving.options import Machine
from benchmarks.serving.popularity import POPULARITIES

CPU = Machine(torch.device("cpu"), torch.float32)


@pytest.mark.parametrize("popularity", POPULARITIES)
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_every_row_asks_for_one_model(popularity: str, rows: int) -> None:
    counts = POPULARITIES[popularity](rows)
    assert sum(counts) == rows
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] > 0


def test_popularities_are_those_of_the_paper() -> None:
    counts = {name: of_rows(64) for name, of_rows in POPULARITIES.items()}
    assert counts["distinct"] == [1] * 64
    assert counts["uniform"] == [8] * 8
    assert counts["identical"] == [64]
    first, second, third = counts["skewed"][:3]
    assert first / second == pytest.approx(1.5, abs=0.1)
    assert second / third == pytest.approx(1.5, abs=0.2)


def test_flop_and_bytes_are_those_of_both_products() -> None:
    shape = sgmv.OneProjection(1, 10, 30)
    loras = [sgmv.random_lora(shape, 4, seed, CPU) for seed in range(2)]
    batch = sgmv.draw_batch(shape, loras, [2, 1], CPU)
    flop, size = sgmv.work(batch, 4)
    assert flop == 2 * 3 * (10 * 4 + 4 * 30)
    assert size == 4 * (3 * (10 + 4) + 2 * 10 * 4 + 3 * (4 + 30) + 2 * 4 * 30)


def test_a_way_that_computes_something_else_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = sgmv.OneProjection(2, 10, 30)
    batch = sgmv.draw_batch(shape, [sgmv.random_lora(shape, 4, 0, CPU)], [3], CPU)
    assert sgmv.differences(batch) == []
    monkeypatch.setattr(sgmv, "by_sgmv", lambda stacks, batch: batch.outputs)
    assert sgmv.differences(batch) == ["SGMV differs from the loop"]


def test_it_reports_each_popularity_and_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sgmv, "QUICK_ROWS", (1, 6))
    monkeypatch.setattr(sgmv, "QUICK_RANKS", (4, 16))
    monkeypatch.setattr(sgmv, "measured_roof", lambda _: sgmv.Roof(flop=1e9, bytes=1e9))
    told = tmp_path / "sgmv.json"
    shape = ["--inputs", "20", "--outputs", "33", "--device", "cpu", "--dtype", "float32"]
    assert sgmv.main(["--quick", "--repeats", "1", *shape, "--json", str(told)]) == 0
    document = json.loads(told.read_text())
    assert {(row["popularity"], row["rank"], row["rows"]) for row in document["rows"]} == {
        (popularity, rank, rows) for popularity in POPULARITIES for rank in (4, 16) for rows in (1, 6)
    }
    assert all(row["of the roof"] > 0 for row in document["rows"])
    assert document["figures"].keys() >= {"distinct_vs_identical", "vs_loop_distinct", "vs_gather_skewed"}

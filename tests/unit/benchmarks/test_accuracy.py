"""The accuracy benchmark from its command to its table, on a tiny model and tiny data."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.accuracy import alpha, workbench
from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.comparison import Comparison
from benchmarks.accuracy.data import DATASETS, Dataset
from benchmarks.accuracy.grid import Cell, Grid
from benchmarks.accuracy.methods import DEDICATED, HBERT, Method
from benchmarks.accuracy.trainings import Shape
from benchmarks.accuracy.workbench import Workbench, conversion_settings
from tests.unit.workers.training.world import CancelAt, Recorder
from workers.training.checkpoints import CheckpointStore
from workers.training.progress import Cancelled
from workers.training.search import STAGE

pytestmark = pytest.mark.thorough

CUT, SHORT = Shape(2, 2), Shape(2, 1)
TOKENS = 500
CHEMPROT = DATASETS["chemprot"]


@pytest.fixture
def bench(checkpoint: Path) -> Workbench:
    return Workbench(Console(quiet=True), checkpoint, conversion_settings(TOKENS))


def _allow(count: int) -> Callable[[], bool]:
    """Says yes so many times."""
    answers = iter([True] * count)
    return lambda: next(answers, False)


def _cells(*methods: Method, dataset: Dataset = CHEMPROT) -> list[Cell]:
    return [Cell(method, dataset, CUT) for method in methods]


def test_the_command_fills_its_table_and_computes_nothing_twice(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [
        *("--dataset", "chemprot", "--dataset", "NCBI-disease"),
        *("--method", "dedicated", "--method", "hBERT-adapter", "--method", "hBERT"),
        *("--cut", "2+2", "--cut", "2+1", "--tenants", "2"),
        *("--epochs", "1", "--seeds", "2", "--tokens", str(TOKENS), "--checkpoint", str(checkpoint)),
    ]
    out = tmp_path / "out.json"
    assert main([*chosen, "--json", str(out)]) == 0
    report = json.loads(out.read_text())
    assert [row["method"] for row in report["rows"]] == [
        "dedicated",
        *("hBERT", "hBERT, cascade", "hBERT, full", "hBERT-adapter"),
        *("hBERT (2+1)", "hBERT, cascade (2+1)", "hBERT, full (2+1)"),
    ]
    for row in report["rows"]:
        assert all(re.fullmatch(r"-?\d+\.\d ± \d+\.\d", row[name]) for name in ("chemprot", "NCBI-disease"))
    figures = report["figures"]
    assert figures["complete_cells"] == 1
    assert figures["drop_dedicated_datasets"] == 2
    parts = figures["drop_pet"] + figures["drop_conversion"] + figures["drop_table"]
    assert figures["drop_dedicated"] == pytest.approx(parts)
    assert figures.keys() >= {"drop_dedicated_2+1", "drop_table_2+1", "accuracy_hBERT_2", "F1_hBERT_2"}

    kept = {file.name: file.read_bytes() for file in (tmp_path / "results").iterdir()}
    assert kept.keys() == {"trainings.jsonl", "tests.jsonl"}
    shutil.rmtree(tmp_path / "bench")
    capsys.readouterr()
    assert main([*chosen, "--committed", "--json", str(out)]) == 0
    again = json.loads(out.read_text())
    assert (again["rows"], again["figures"]) == (report["rows"], figures)
    assert (again["settings"]["missing"], again["settings"]["old"]) == ([], [])
    assert {file.name: file.read_bytes() for file in (tmp_path / "results").iterdir()} == kept
    assert not list((tmp_path / "bench").rglob("*.safetensors"))
    assert "[" not in capsys.readouterr().out.split("mean |", 1)[1].split("Learning rates", 1)[0]


def test_a_grid_that_runs_out_of_budget_goes_on_with_the_next_one(bench: Workbench) -> None:
    cells = _cells(DEDICATED, HBERT, dataset=DATASETS["sick-sts"])
    stopped = Grid(bench, epochs=1, seeds=2, may_train=_allow(3))
    stopped.run(cells)
    first = Comparison(stopped, cells, [CUT])
    # One learning rate of each method comes first, so that there is something to compare.
    assert [covered.extent for cell in cells if (covered := stopped.covered(cell))] == [(2, 1), (1, 1)]
    assert [row["sick-sts"][-8:] for row in first.rows()] == ["[2 of 4]", *["[1 of 4]"] * 3]
    assert "drop_dedicated" not in first.figures()
    assert "drop_table" in first.figures()
    resumed = Grid(bench, epochs=1, seeds=2, may_train=_allow(5))
    resumed.run(cells)
    assert all(resumed.is_complete(cell) for cell in cells)
    assert "drop_dedicated" in Comparison(resumed, cells, [CUT]).figures()


def test_the_learning_rate_is_chosen_on_dev_and_the_test_file_is_read_for_it_alone(
    bench: Workbench, tmp_path: Path
) -> None:
    (cell,) = _cells(HBERT)
    grid = Grid(bench, epochs=1, seeds=2)
    test_file = tmp_path / "data" / "chemprot" / "test.txt"
    rows = test_file.read_text()
    grid.run([cell])
    covered = grid.covered(cell)
    assert covered is not None
    assert covered.rates[covered.best_rate] == max(covered.rates.values())
    tested = (tmp_path / "results" / "tests.jsonl").read_text().splitlines()
    settings = [json.loads(line)["settings"]["training"]["settings"] for line in tested]
    assert {one["learning_rate"] for one in settings} == {covered.best_rate}
    assert {one["seed"] for one in settings} == {0, 1}
    assert test_file.read_text() == rows


def test_a_training_that_is_killed_goes_on_from_its_checkpoint(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbench, "CheckpointStore", partial(CheckpointStore, interval_s=0.0))
    (cell,) = _cells(HBERT)
    training = Grid(bench, epochs=2).training(cell, HBERT.rate, 0)
    bench.reporter = CancelAt(3, stage=STAGE)
    with pytest.raises(Cancelled):
        bench.train(training)
    assert bench.find(training) is None
    bench.reporter = recorder = Recorder()
    assert bench.train(training) == bench.find(training)
    (steps,) = [done for name, _, done in recorder.stages if name == STAGE]
    assert steps[0] == 3
    assert not list(bench.model(training).parent.glob("*.checkpoints"))
    assert bench.test(training)["levels"].keys() >= {"table", "cascade", "full"}


def test_alpha_varies_the_table_of_the_domain_alone(bench: Workbench) -> None:
    grid = Grid(bench, epochs=1, seeds=2)
    rows, figures = alpha.measure(grid, CHEMPROT, "float16", (100.0, 0.0), CUT)
    assert [row["α %"] for row in rows] == [100.0, 0.0]
    assert rows[0]["entries"] > 0
    assert (rows[1]["entries"], rows[1]["MB"]) == (0, 0)
    assert figures.keys() == {"metric_100", "metric_0"}

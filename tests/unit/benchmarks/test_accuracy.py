"""The accuracy benchmark from its command to its tables, on a tiny model and tiny data."""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.accuracy import alpha, tenant_curves, workbench
from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.comparison import MISSING, Wanted, compare
from benchmarks.accuracy.data import DATASETS
from benchmarks.accuracy.methods import HBERT
from benchmarks.accuracy.schedule import Schedule
from benchmarks.accuracy.workbench import Workbench
from tests.unit.workers.training.world import CancelAt, Recorder
from workers.training.checkpoints import CheckpointStore
from workers.training.progress import Cancelled
from workers.training.search import STAGE, FineTuneSettings

pytestmark = pytest.mark.thorough

TOKENS = 500
CHEMPROT = DATASETS["chemprot"]


@pytest.fixture
def bench(checkpoint: Path) -> Workbench:
    return Workbench(Console(quiet=True), checkpoint, TOKENS)


def test_a_command_fills_its_table_and_computes_nothing_twice(checkpoint: Path, tmp_path: Path) -> None:
    small = ["--seeds", "2", "--epochs", "1", "--tokens", str(TOKENS), "--checkpoint", str(checkpoint)]
    first, again = tmp_path / "first.json", tmp_path / "again.json"
    assert main(["table10", *small, "--json", str(first)]) == 0
    report = json.loads(first.read_text())
    assert [row["method"] for row in report["rows"]] == [
        *("hBERT (1+2)", "hBERT, table (1+2)", "hBERT, full (1+2)"),
        *("hBERT (2+2)", "hBERT, table (2+2)", "hBERT, full (2+2)"),
    ]
    assert all(re.fullmatch(r"-?\d+\.\d ± \d+\.\d", row["NCBI-disease"]) for row in report["rows"])
    kept = {file.name: file.read_bytes() for file in (tmp_path / "results").iterdir()}
    assert kept.keys() == {"trainings.jsonl", "tests.jsonl"}
    shutil.rmtree(tmp_path / "bench")
    assert main(["table10", *small, "--committed", "--json", str(again)]) == 0
    committed = json.loads(again.read_text())
    assert committed["rows"] == report["rows"]
    assert (committed["settings"]["missing"], committed["settings"]["old"]) == ([], [])
    assert {file.name: file.read_bytes() for file in (tmp_path / "results").iterdir()} == kept
    assert not list((tmp_path / "bench").rglob("*.safetensors"))


def test_seeds_that_are_missing_are_marked(bench: Workbench) -> None:
    Schedule(bench, seeds=1, epochs=1).result(HBERT, CHEMPROT)
    beyond = Schedule(bench, seeds=2, epochs=1, core_hours=0)
    served, *_ = compare(beyond, [CHEMPROT, DATASETS["sst2"]], [Wanted(HBERT)])
    assert served["chemprot"].endswith(" [1 of 2]")
    assert served["sst2"] == served["mean"] == MISSING


def test_tenants_of_figure_14_share_the_rows_of_their_datasets(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_curves, "TENANTS", (2,))
    rows = tenant_curves.rows(Schedule(bench, epochs=1), [CHEMPROT])
    assert [(row["tenants"], row["method"], row["models"]) for row in rows] == [
        (2, "dedicated", "2 of 2"),
        (2, "hBERT", "2 of 2"),
    ]
    assert all(row["accuracy"] >= 0 and row["F1"] == MISSING for row in rows)


def test_the_product_s_own_model_has_the_defaults_of_fine_tuning() -> None:
    assert HBERT.settings(0) == FineTuneSettings()


def test_a_run_beyond_its_budget_trains_nothing_and_reports_what_is_there(bench: Workbench) -> None:
    assert Schedule(bench, epochs=1, core_hours=0).result(HBERT, CHEMPROT) is None
    found = Schedule(bench, epochs=1).result(HBERT, CHEMPROT)
    assert Schedule(bench, epochs=1, core_hours=0).results(HBERT, CHEMPROT) == [found]


def test_a_model_below_its_domain_reads_the_domain_s_layers_and_table(bench: Workbench) -> None:
    schedule = Schedule(bench, epochs=1)
    below, on_root = (schedule.training(HBERT, CHEMPROT, on_root=flag) for flag in (False, True))
    domain, root = bench.inputs(below), bench.inputs(on_root)
    assert [len(one.plots) for one in (domain, root)] == [2, 1]
    assert domain.plots[-1] == root.plots[-1]
    assert domain.lower != root.lower
    assert bench.key(below) != bench.key(on_root)


def test_what_other_code_has_made_is_made_again(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = bench.branches.shape
    before = bench.branches.root(shape)
    assert bench.branches.root(shape) == before
    monkeypatch.setattr(workbench, "code_digest", lambda _: "another")
    other = Workbench(Console(quiet=True), Path(bench.branches.name), TOKENS)
    assert other.branches.root(shape).root != before.root
    assert other.branches.root(shape).key == before.key


def test_a_training_that_is_killed_goes_on_from_its_checkpoint(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbench, "CheckpointStore", partial(CheckpointStore, interval_s=0.0))
    training = Schedule(bench, epochs=2).training(HBERT, CHEMPROT)
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
    schedule = Schedule(bench, seeds=2, epochs=1)
    rows, figures = alpha.measure(schedule, CHEMPROT, "float16", (100.0, 0.0))
    assert [row["α %"] for row in rows] == [100.0, 0.0]
    assert rows[0]["entries"] > 0
    assert (rows[1]["entries"], rows[1]["MB"]) == (0, 0)
    assert figures.keys() == {"metric_100", "metric_0"}

"""The accuracy benchmark from its command to its tables, on a tiny model and tiny data."""

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.accuracy import alpha, workbench
from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.data import DATASETS
from benchmarks.accuracy.methods import DEDICATED, HBERT
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


def printed_table(checkpoint: Path, out: Path, *options: str) -> dict[str, Any]:
    """What the command writes."""
    small = ["--seeds", "2", "--epochs", "1", "--tokens", str(TOKENS), "--checkpoint", str(checkpoint)]
    assert main([*options, *small, "--json", str(out)]) == 0
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_the_command_fills_its_table_and_computes_nothing_twice(checkpoint: Path, tmp_path: Path) -> None:
    report = printed_table(checkpoint, tmp_path / "out.json", "table7")
    assert [row["method"] for row in report["rows"]] == [
        "dedicated",
        *("hBERT", "hBERT, table", "hBERT, full"),
        *("hBERT (2+1)", "hBERT, table (2+1)", "hBERT, full (2+1)"),
    ]
    for row in report["rows"]:
        assert all(re.fullmatch(r"-?\d+\.\d ± \d+\.\d", row[name]) for name in ("sst2", "sick-sts"))
    kept = {file.name: file.read_bytes() for file in (tmp_path / "results").iterdir()}
    assert kept.keys() == {"trainings.jsonl", "tests.jsonl"}
    shutil.rmtree(tmp_path / "bench")
    again = printed_table(checkpoint, tmp_path / "again.json", "table7", "--committed")
    assert again["rows"] == report["rows"]
    assert (again["settings"]["missing"], again["settings"]["old"]) == ([], [])
    assert {file.name: file.read_bytes() for file in (tmp_path / "results").iterdir()} == kept
    assert not list((tmp_path / "bench").rglob("*.safetensors"))


def test_tenants_of_figure_14_share_the_rows_of_their_datasets(checkpoint: Path, tmp_path: Path) -> None:
    report = printed_table(checkpoint, tmp_path / "out.json", "figure14")
    assert [(row["tenants"], row["method"]) for row in report["rows"]] == [
        (tenants, method) for tenants in (10, 100, 1000) for method in ("dedicated", "hBERT")
    ]
    assert report["rows"][0]["models"] == "8 of 8"


def test_the_product_s_own_model_has_the_defaults_of_fine_tuning() -> None:
    assert HBERT.settings(0) == FineTuneSettings()


def test_a_run_beyond_its_budget_trains_nothing_and_reports_what_is_there(bench: Workbench) -> None:
    assert Schedule(bench, epochs=1, core_hours=0).result(HBERT, CHEMPROT) is None
    found = Schedule(bench, epochs=1).result(HBERT, CHEMPROT)
    assert Schedule(bench, epochs=1, core_hours=0).results(HBERT, CHEMPROT) == [found]


def test_the_first_seed_chooses_the_learning_rate_of_the_others(bench: Workbench) -> None:
    schedule = Schedule(bench, epochs=1)
    assert schedule.training(DEDICATED, CHEMPROT, seed=1) is None
    first = schedule.training(DEDICATED, CHEMPROT)
    assert first is not None
    chosen = bench.train(first)["learning_rate"]
    second = schedule.training(DEDICATED, CHEMPROT, seed=1)
    assert second is not None
    assert (second.settings.learning_rate, second.settings.trials) == (chosen, 1)


def test_a_model_below_its_domain_reads_the_domain_s_layers_and_table(bench: Workbench) -> None:
    schedule = Schedule(bench, epochs=1)
    below, on_root = (
        training
        for flag in (False, True)
        if (training := schedule.training(HBERT, CHEMPROT, on_root=flag)) is not None
    )
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
    assert training is not None
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

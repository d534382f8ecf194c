"""A benchmark that has run for long does not end because a folder is missing."""

import argparse
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import harness
from benchmarks.accuracy import READINGS, Accuracy
from benchmarks.methods import HBERT, Inputs
from benchmarks.runs import made_folder
from tests.unit.training.conftest import Branch
from tests.unit.training.conftest import branch as branch
from tests.unit.training.world import dataset
from workers.training.fine_tune_settings import FineTuneSettings

pytestmark = pytest.mark.unit
OPTIONS = argparse.Namespace(
    dataset=["chemprot"], method=["hBERT"], seeds=1, trials=1, epochs=1, quick=False, json=None
)


@pytest.fixture(autouse=True)
def fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "fresh"))
    return tmp_path / "fresh"


def test_an_hplm_is_the_first_thing_that_a_fresh_folder_gets(branch: Branch, tmp_path: Path) -> None:
    benchmark = Accuracy(OPTIONS, Console(quiet=True))
    files = dataset(tmp_path, "classification", train=32)
    inputs = Inputs(branch.root, branch.lower, [branch.plot], files, "classification")
    settings = FineTuneSettings(precision="float32", epochs=1, minimum_steps=0, mix=HBERT.mix)
    result = benchmark._tune(inputs, settings, HBERT, {"dataset": "tiny"})
    assert result["readings"].keys() == READINGS.keys()


@pytest.mark.parametrize("kind", ["hplms", "further"])
def test_the_folder_above_what_is_made_for_a_key_is_there(kind: str, fresh_folder: Path) -> None:
    folder = made_folder(kind, {"seed": 0})
    assert folder.parent == fresh_folder / kind
    assert folder.parent.is_dir()
    assert not folder.exists()


def test_the_folder_of_an_output_file_is_made_before_the_run(tmp_path: Path) -> None:
    file = tmp_path / "reports" / "today" / "report.json"
    options = harness.arguments("").parse_args(["--json", str(file)])
    assert options.json.parent.is_dir()
    harness.write_json(harness.Report("example", {}, [], {}), options.json)
    assert file.is_file()

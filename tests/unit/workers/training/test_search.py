"""The search of a fine-tuning: what it tries, and that a job that was killed ends as if it never had been."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.hplm.hplm import WEIGHTS_FILE
from inference.text.outputs import HPLM_FILE
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import CancelAt, NullReporter, dataset
from workers.training import search
from workers.training.checkpoints import CheckpointStore
from workers.training.datasets import DatasetFiles
from workers.training.fine_tune import fine_tune
from workers.training.progress import Cancelled, Reporter
from workers.training.search import FineTuneSettings

pytestmark = pytest.mark.slow

SETTINGS = FineTuneSettings(
    precision="float32", lora=4, learning_rate=5e-3, trials=2, epochs=2, min_steps=0, batch_size=8
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> DatasetFiles:
    """A small dataset; to be left as it is."""
    return dataset(tmp_path_factory.mktemp("dataset"), "classification", train=40)


@pytest.fixture(scope="module")
def whole(branch: Branch, files: DatasetFiles, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a fine-tuning that nothing stopped leaves."""
    out = tmp_path_factory.mktemp("whole") / "out"
    tune(branch, files, out)
    return without_cascade(out)


def without_cascade(out: Path) -> dict[str, Any]:
    """The weights, and what is said of them, without the cascade: its costs are measured each time."""
    about: dict[str, Any] = json.loads((out / HPLM_FILE).read_text())
    return {
        "weights": (out / WEIGHTS_FILE).read_bytes(),
        **{k: v for k, v in about.items() if k != "cascade"},
    }


def tune(
    branch: Branch,
    files: DatasetFiles,
    out: Path,
    *,
    kept: Path | None = None,
    reporter: Reporter | None = None,
    settings: FineTuneSettings = SETTINGS,
) -> dict[str, Any]:
    torch.set_num_threads(1)
    return fine_tune(
        root=branch.root,
        plots=[branch.plot],
        lower=branch.lower,
        dataset=files,
        task="classification",
        out=out,
        settings=settings,
        reporter=reporter or NullReporter(),
        checkpoints=CheckpointStore(kept, interval_s=0),
    )


def test_a_fine_tuning_that_is_stopped_again_and_again_goes_on_to_the_same_weights(
    branch: Branch, files: DatasetFiles, whole: dict[str, Any], tmp_path: Path
) -> None:
    """In the first epoch of the first trial, in its second, and in both of the second trial."""
    out, kept, made = tmp_path / "out", tmp_path / "kept", []
    for check in (3, 4, 6, 4):
        stop = Steps(check)
        with pytest.raises(Cancelled):
            tune(branch, files, out, kept=kept, reporter=stop)
        assert not out.exists()
        made.append(stop.made)
    end = Steps(sys.maxsize)
    tune(branch, files, out, kept=kept, reporter=end)
    assert without_cascade(out) == whole
    assert all(0 < steps < 20 for steps in [*made, end.made]), "each goes on, and none begins anew"


def test_every_learning_rate_is_tried_and_the_best_on_dev_is_kept(
    branch: Branch, files: DatasetFiles, tmp_path: Path
) -> None:
    report = tune(branch, files, tmp_path / "out", settings=replace(SETTINGS, trials=3))
    assert [trial["learning_rate"] for trial in report["trials"]] == [5e-3, 2.5e-3, 1e-2]
    best = max(trial["dev"] for trial in report["trials"])
    assert report["dev"]["value"] == pytest.approx(best, abs=1e-4)
    assert len(report["epochs"]) == 2


class Steps(CancelAt):
    """Counts the steps of training, without those of cross-fitting, until it is stopped there."""

    def __init__(self, check: int) -> None:
        super().__init__(check, search.STAGE)
        self.made = 0

    def report(self, step: int, **metrics: float) -> None:
        self.made += self.stages[-1] == search.STAGE and set(metrics) == {"loss"}

"""Small dev splits: the cascade is fitted on training rows too, answered by models that never saw them."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.cascade.dispatcher import Level
from inference.cascade.profile import CascadeProfile
from inference.errors import HplmError
from tests.unit.tiny import WORDS
from tests.unit.workers.training.cascade_world import COSTS, agreeing, classified, tagged
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.test_fine_tune import SMALL
from tests.unit.workers.training.test_search import tune
from tests.unit.workers.training.world import CancelAt, Recorder, contents, dataset, json_lines
from workers.training.cascade import cross_fitting
from workers.training.cascade.outputs import OutputsByLevel
from workers.training.cascade.selection import fit_profile
from workers.training.datasets import DatasetFiles
from workers.training.optimizer import Optimizer
from workers.training.progress import Cancelled

SETTINGS = replace(SMALL, full_context_share=0.5)
"""With the mixed training of the product, so both levels of the training rows are there."""
STAGES = list(cross_fitting.STAGES)


def profile_of(folder: Path) -> CascadeProfile:
    found = CascadeProfile.load(folder)
    assert found is not None
    return found


def labelled_by_chance(path: Path, words: Sequence[str], seed: int) -> Path:
    """A word each, whose label can be learnt by heart, and never be guessed."""
    draw = random.Random(seed)
    return json_lines(path, [{"text": f"{word} " * 4, "label": draw.choice("ab")} for word in words])


def test_the_table_serves_if_training_rows_show_what_few_dev_rows_cannot() -> None:
    dev, more = agreeing(60), agreeing(1000)
    assert fit_profile(dev, COSTS).serving() is Level.FULL
    profile = fit_profile(dev, COSTS, [more])
    assert profile.serving() is Level.TABLE
    assert profile.rows == 1060


@pytest.mark.parametrize(
    ("dev", "fold"),
    [
        (classified(200, seed=1), classified(1000, seed=2, sharpness=3.0)),
        (tagged(200, seed=1), tagged(1000, seed=2, table_noise=0.2, full_noise=0.2)),
    ],
    ids=["classes", "tags"],
)
def test_calibration_is_that_of_the_model_itself(dev: OutputsByLevel, fold: OutputsByLevel) -> None:
    alone, profile = fit_profile(dev, COSTS), fit_profile(dev, COSTS, [fold])
    for level in ("table", "full"):
        of_dev, both = getattr(alone, level), getattr(profile, level)
        assert (both.temperature, both.platt) == (of_dev.temperature, of_dev.platt)
        assert (both.bins, both.ece) == (of_dev.bins, of_dev.ece)


def test_a_surer_model_of_fewer_rows_changes_no_choice() -> None:
    dev = classified(200, seed=1)
    calm, surer = (fit_profile(dev, COSTS, [classified(1000, seed=2, sharpness=by)]) for by in (1.0, 3.0))
    assert surer.serves == calm.serves
    assert [one.cutoff for one in surer.candidates] == [one.cutoff for one in calm.candidates]
    assert [one.metric for one in surer.candidates] == pytest.approx([one.metric for one in calm.candidates])


def test_a_small_dev_split_is_joined_by_every_training_row(branch: Branch, tmp_path: Path) -> None:
    recorder = Recorder()
    report = tune(
        branch, dataset(tmp_path, "classification"), tmp_path / "out", settings=SETTINGS, reporter=recorder
    )
    assert [name for name, _, _ in recorder.stages if name in STAGES] == STAGES
    assert profile_of(tmp_path / "out").rows == 60 + 240
    assert report["cascade"]["cross_fitted"] == 240
    assert report["dev"]["rows"] == 60


def test_training_rows_are_answered_by_models_that_never_saw_them(branch: Branch, tmp_path: Path) -> None:
    train = labelled_by_chance(tmp_path / "train.jsonl", WORDS[:40], seed=1)
    dev = labelled_by_chance(tmp_path / "dev.jsonl", WORDS[40:50], seed=2)
    by_heart = replace(SETTINGS, epochs=60, patience=60, learning_rate=2e-2, batch_size=8)
    report = tune(branch, DatasetFiles(train, dev, dev), tmp_path / "out", settings=by_heart)
    assert report["epochs"][-1]["loss"] < 0.2
    assert profile_of(tmp_path / "out").full.metric < 0.7


def test_a_large_dev_split_is_enough(branch: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_fitting, "ENOUGH_ROWS", 60)
    report = tune(branch, dataset(tmp_path, "classification"), tmp_path / "out", settings=SETTINGS)
    assert report["cascade"]["cross_fitted"] == 0
    assert profile_of(tmp_path / "out").rows == 60


def test_a_model_is_made_though_a_fold_diverges(
    branch: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_step = Optimizer.train_step

    def diverge_in_the_second_fold(self: Optimizer, *given: Any, **named: Any) -> float:
        if recorder.stages[-1][0] == STAGES[1]:
            raise HplmError("training_diverged", "The loss became nan at step 1.")
        return train_step(self, *given, **named)

    files, recorder = dataset(tmp_path, "classification"), Recorder()
    monkeypatch.setattr(Optimizer, "train_step", diverge_in_the_second_fold)
    report = tune(branch, files, tmp_path / "out", settings=SETTINGS, reporter=recorder)
    assert report["cascade"]["cross_fitted"] == 120


@pytest.mark.slow
def test_a_resumed_cross_fitting_gives_the_same_cascade(branch: Branch, tmp_path: Path) -> None:
    files, kept = dataset(tmp_path, "classification", train=80), tmp_path / "checkpoints"
    tune(branch, files, tmp_path / "straight", settings=SETTINGS)
    stopped = tmp_path / "stopped"
    for stage in STAGES:
        with pytest.raises(Cancelled):
            tune(branch, files, stopped, settings=SETTINGS, kept=kept, reporter=CancelAt(9, stage))
        assert not contents(stopped)
    recorder = Recorder()
    tune(branch, files, stopped, settings=SETTINGS, kept=kept, reporter=recorder)
    assert next(steps[0] for name, _, steps in recorder.stages if name == STAGES[-1]) > 1
    straight, again = (profile_of(tmp_path / name) for name in ("straight", "stopped"))
    assert [one.metric for one in again.candidates] == [one.metric for one in straight.candidates]
    assert again.full == replace(straight.full, milliseconds=again.full.milliseconds)

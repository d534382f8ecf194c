"""Tables become one while people watch, and may stop it."""

from pathlib import Path

import pytest

from inference.hplm import plot_writer
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import CancelAt, Recorder
from workers.training.plots import merge_plots
from workers.training.progress import Cancelled


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot_writer, "MERGE_BATCH", 16)


def test_it_tells_how_far_it_is(branch: Branch, tmp_path: Path) -> None:
    recorder = Recorder()
    report = merge_plots(plots=[branch.plot, branch.plot], out=tmp_path / "out", reporter=recorder)
    ((name, total, steps),) = recorder.stages
    assert (name, total) == ("merge tables", report["before"]["rows"])
    assert steps == [*range(0, report["rows"], 16), total]


def test_a_cancel_is_obeyed_in_the_middle_and_leaves_nothing(branch: Branch, tmp_path: Path) -> None:
    cancel = CancelAt(3)
    with pytest.raises(Cancelled):
        merge_plots(plots=[branch.plot, branch.plot], out=tmp_path / "out", reporter=cancel)
    assert cancel.left == 0
    assert cancel.late_steps == 0
    assert not (tmp_path / "out").exists()

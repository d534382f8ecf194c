"""A job that was stopped goes on from its checkpoints and makes the same bytes as one that never was."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.test_convert import SMALL as CONVERT
from tests.unit.workers.training.test_further_pretrain import SMALL as PRETRAIN
from tests.unit.workers.training.world import (
    CancelAt,
    NullReporter,
    Recorder,
    contents,
    corpus_file,
    repeating_texts,
)
from workers.training.checkpoints import CheckpointStore
from workers.training.convert import convert_root
from workers.training.further_pretrain import further_pretrain
from workers.training.progress import Cancelled, Reporter

pytestmark = pytest.mark.slow

Run = Callable[[Path, Reporter, CheckpointStore], object]


@pytest.mark.parametrize(("stage", "check"), [("closed form", 3), ("mixer", 9), ("distil", 40)])
def test_a_resumed_conversion_gives_the_same_root(
    branch: Branch, tmp_path: Path, stage: str, check: int
) -> None:
    corpus = corpus_file(tmp_path / "corpus.txt")

    def run(out: Path, reporter: Reporter, checkpoints: CheckpointStore) -> None:
        convert_root(
            checkpoint=str(branch.checkpoint),
            corpus=corpus,
            out_root=out / "root",
            out_lower=out / "lower",
            settings=replace(CONVERT, mixer_tokens=2_000, distil_tokens=6_000),
            reporter=reporter,
            checkpoints=checkpoints,
        )

    compare(run, tmp_path, stage, check, keeps_steps=stage != "closed form")


@pytest.mark.parametrize(
    ("stage", "check"),
    [
        ("fit language model head", 4),
        ("further pretrain", 40),
        ("further pretrain with full context", 40),
    ],
)
def test_a_resumed_further_pretraining_gives_the_same_domain(
    branch: Branch, tmp_path: Path, stage: str, check: int
) -> None:
    corpus = corpus_file(tmp_path / "corpus.txt", repeating_texts(300))

    def run(out: Path, reporter: Reporter, checkpoints: CheckpointStore) -> None:
        further_pretrain(
            root=branch.root,
            lower=branch.lower,
            corpus=corpus,
            out=out / "lower",
            settings=replace(PRETRAIN, tokens=4_000, head_tokens=3_000, distillation_weight=1.0),
            reporter=reporter,
            checkpoints=checkpoints,
        )

    compare(run, tmp_path, stage, check)


def compare(run: Run, folder: Path, stage: str, check: int, *, keeps_steps: bool = True) -> None:
    """Stop a job at a check of a stage and start it again. With `keeps_steps` it repeats no step of it."""
    torch.set_num_threads(1)
    run(folder / "straight", NullReporter(), CheckpointStore())
    checkpoints = folder / "checkpoints"
    with pytest.raises(Cancelled):
        run(folder / "stopped", CancelAt(check, stage), CheckpointStore(checkpoints, 0.0))
    assert not contents(folder / "stopped")
    recorder = Recorder()
    run(folder / "stopped", recorder, CheckpointStore(checkpoints, 0.0))
    (first,) = (steps[0] for name, _, steps in recorder.stages if name == stage)
    assert (first > 1) == keeps_steps
    assert contents(folder / "stopped") == contents(folder / "straight")

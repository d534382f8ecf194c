"""A job that was stopped goes on from its checkpoints and makes the same bytes as one that never was."""

import sys
from collections.abc import Callable, Container
from contextlib import nullcontext
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


def test_a_resumed_conversion_gives_the_same_root(branch: Branch, tmp_path: Path) -> None:
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

    stops = {"closed form": 3, "distil": 20, "mixer": 6}
    compare(run, tmp_path, stops, repeats={"closed form"})


def test_a_resumed_further_pretraining_gives_the_same_domain(branch: Branch, tmp_path: Path) -> None:
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

    stops = {"fit language model head": 4, "further pretrain": 20, "further pretrain with full context": 20}
    compare(run, tmp_path, stops)


class FirstSteps(CancelAt):
    """Keeps the first step of every stage."""

    def __init__(self, check: int, stage: str | None) -> None:
        super().__init__(check, stage)
        self.first: dict[str, int] = {}

    def report(self, step: int, **metrics: float) -> None:
        super().report(step, **metrics)
        self.first.setdefault(self.stages[-1], step)


def compare(run: Run, folder: Path, stops: dict[str, int], *, repeats: Container[str] = ()) -> None:
    """Stop a job at a check of each of its stages, in turn, and let it end. It repeats the steps of no stage
    but of those in `repeats`."""
    torch.set_num_threads(1)
    run(folder / "straight", NullReporter(), CheckpointStore())
    before = None
    for stage, check in [*stops.items(), (None, sys.maxsize)]:
        reporter = FirstSteps(check, stage)
        with pytest.raises(Cancelled) if stage else nullcontext():
            run(folder / "stopped", reporter, CheckpointStore(folder / "checkpoints", 0.0))
        assert bool(contents(folder / "stopped")) == (stage is None)
        if before:
            assert (reporter.first[before] > 1) == (before not in repeats), before
        before = stage
    assert contents(folder / "stopped") == contents(folder / "straight")

"""Several processes train one model: each computes its share, all hold the same weights."""

import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import PartialState, debug_launcher
from torch import Tensor
from torch.nn import Parameter

from tests.unit.training.conftest import Branch
from tests.unit.training.test_convert import SMALL
from tests.unit.training.world import CancelAt, NullReporter, corpus_file
from workers.training.companions import companions
from workers.training.convert import convert_here
from workers.training.optimise import Optimiser
from workers.training.parallel import Processes
from workers.training.progress import Cancelled
from workers.training.word_rows import WordRows

TARGETS = [1.0, -2.0, 3.0, 0.5, 4.0]


def train(room: int = 100) -> tuple[Tensor, Tensor]:
    """A few steps on a weight and on some rows of a table; one process may have room for few targets."""
    weight, table = Parameter(torch.zeros(3)), torch.ones(4, 3)
    words = WordRows(table, 0.1)
    optimiser = Optimiser([{"params": [weight], "lr": 0.1}], steps=9, warmup=1, words=words)

    def loss(part: list[float]) -> Tensor:
        if len(part) > room and Processes().number == 1:
            torch.empty(1 << 46, dtype=torch.float64)
        return (weight + words.rows.sum(0) - torch.tensor(part)[:, None]).square().mean()

    for _ in range(5):
        words.take(np.array([[0, 2, 4]]))
        optimiser.descend(TARGETS, loss, weight_of=lambda _: 1.0)
    return weight.detach(), table


def in_one_of_two(folder: str) -> None:
    PartialState(cpu=True)
    processes = Processes()
    results = [*train(), *train(room=1)]
    torch.save(
        [processes.count, processes.summed(processes.number), *results], f"{folder}/{processes.number}"
    )


def test_two_processes_learn_what_one_does_also_when_memory_runs_out_in_one(tmp_path: Path) -> None:
    debug_launcher(in_one_of_two, args=(str(tmp_path),), num_processes=2)
    expected = [*train(), *train()]
    for number in range(2):
        count, sum_of_numbers, *found = torch.load(tmp_path / str(number), weights_only=True)
        assert (count, sum_of_numbers) == (2, 1.0)
        for one, other in zip(found, expected, strict=True):
            assert torch.allclose(one, other, atol=1e-5)


def test_a_conversion_with_a_companion_is_the_conversion_without(branch: Branch, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "checkpoint": str(branch.checkpoint),
        "corpus": corpus_file(tmp_path / "corpus.txt"),
        "out_root": tmp_path / "root",
        "out_lower": tmp_path / "lower",
        "settings": replace(SMALL, ridge_tokens=2_000, distil_tokens=3_000),
        "checkpoints": None,
    }
    alone = convert_here(**given, reporter=NullReporter())
    with companions(convert_here, given, ("out_root", "out_lower"), 2, cpu=True):
        assert Processes().count == 2
        together = convert_here(**given, reporter=NullReporter())
    assert Processes().count == 1
    assert not multiprocessing.active_children()
    for level, figures in alone["distilled"].items():
        assert together["distilled"][level]["cut"] == pytest.approx(figures["cut"], abs=2e-3)


def test_a_cancel_ends_the_companions_too(branch: Branch, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "checkpoint": str(branch.checkpoint),
        "corpus": corpus_file(tmp_path / "corpus.txt"),
        "out_root": tmp_path / "root",
        "out_lower": tmp_path / "lower",
        "settings": SMALL,
        "checkpoints": None,
    }
    with pytest.raises(Cancelled), companions(convert_here, given, ("out_root", "out_lower"), 2, cpu=True):
        convert_here(**given, reporter=CancelAt(60))
    assert not multiprocessing.active_children()
    assert Processes().count == 1


def test_alone_it_is_the_first_of_one() -> None:
    processes = Processes()
    assert (processes.number, processes.count) == (0, 1)
    assert processes.share([1, 2, 3]) == [1, 2, 3]
    assert processes.summed(2.5) == 2.5

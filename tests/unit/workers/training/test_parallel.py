"""Several processes train one model: each computes its share, all hold the same weights."""

import multiprocessing
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from accelerate import PartialState, debug_launcher
from torch import Tensor
from torch.nn import Parameter

from inference.errors import HplmError
from tests.processes import CHECKOUT, wait_until
from tests.unit.workers.training import companions
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.test_convert import QUICK
from tests.unit.workers.training.world import CancelAt, NullReporter, corpus_file
from workers.training.convert import convert_in_process
from workers.training.multi_gpu import PeerLost, ProcessGroup, peer_processes
from workers.training.optimizer import Optimizer, SparseAdamW
from workers.training.progress import Cancelled

TARGETS = [1.0, -2.0, 3.0, 0.5, 4.0]


def train(room: int = 100) -> tuple[Tensor, Tensor]:
    """A few steps on a weight and on some rows of a table; one process may have room for few targets."""
    weight, table = Parameter(torch.zeros(3)), torch.ones(4, 3)
    words = SparseAdamW(table, 0.1)
    optimizer = Optimizer([{"params": [weight], "lr": 0.1}], steps=9, warmup=1, words=words)

    def loss(part: list[float]) -> Tensor:
        if len(part) > room and ProcessGroup().rank == 1:
            torch.empty(1 << 46, dtype=torch.float64)
        return (weight + words.rows.sum(0) - torch.tensor(part)[:, None]).square().mean()

    for _ in range(5):
        words.select(np.array([[0, 2, 4]]))
        optimizer.train_step(TARGETS, loss, weight_of=lambda _: 1.0)
    return weight.detach(), table


def in_one_of_two(folder: str) -> None:
    PartialState(cpu=True)
    processes = ProcessGroup()
    results = [*train(), *train(room=1)]
    torch.save([processes.world_size, processes.sum(processes.rank), *results], f"{folder}/{processes.rank}")


def test_two_processes_learn_what_one_does_also_when_memory_runs_out_in_one(tmp_path: Path) -> None:
    debug_launcher(in_one_of_two, args=(str(tmp_path),), num_processes=2)
    expected = [*train(), *train()]
    for number in range(2):
        count, sum_of_numbers, *found = torch.load(tmp_path / str(number), weights_only=True)
        assert (count, sum_of_numbers) == (2, 1.0)
        for one, other in zip(found, expected, strict=True):
            assert torch.allclose(one, other, atol=1e-5)


def diverge_in_one_of_two(folder: str) -> None:
    PartialState(cpu=True, timeout=timedelta(seconds=20))
    number = ProcessGroup().rank
    weight = Parameter(torch.zeros(3))
    optimizer = Optimizer([{"params": [weight], "lr": 0.1}], steps=9, warmup=1)
    targets = [1.0, 2.0, float("nan"), float("nan")]

    def loss(part: list[float]) -> Tensor:
        return (weight - torch.tensor(part)[:, None]).square().mean()

    try:
        optimizer.train_step(targets, loss, weight_of=lambda _: 1.0)
    except HplmError as error:
        Path(folder, str(number)).write_text(f"{error.code}: {error.message}")


def test_a_loss_that_is_no_number_in_one_process_ends_all_with_the_same_error(tmp_path: Path) -> None:
    debug_launcher(diverge_in_one_of_two, args=(str(tmp_path),), num_processes=2)
    told = [(tmp_path / str(number)).read_text() for number in range(2)]
    assert told == ["training_diverged: The loss became nan at step 1."] * 2


def has_ended(process: psutil.Process) -> bool:
    """It may go while it is looked at."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.slow
def test_companions_end_when_the_process_that_started_them_is_killed() -> None:
    program = f"from {companions.__name__} import lead; lead()"
    leader = subprocess.Popen(
        [sys.executable, "-c", program], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert leader.stdout is not None
    companion = psutil.Process(int(leader.stdout.readline()))
    try:
        leader.kill()
        leader.wait()
        wait_until(lambda: has_ended(companion), within_s=20)
    finally:
        if companion.is_running():
            companion.kill()


@pytest.mark.slow
def test_a_companion_that_died_is_noticed_at_the_next_check() -> None:
    reporter = CancelAt(100)
    with peer_processes(companions.idle, {}, (), 2, cpu=True) as others:
        watched = others.wrap(reporter)
        watched.raise_if_cancelled()
        (companion,) = multiprocessing.active_children()
        assert companion.pid is not None
        os.kill(companion.pid, signal.SIGKILL)
        companion.join()
        with pytest.raises(PeerLost, match="GPU 1"):
            watched.raise_if_cancelled()
    assert reporter.left == 98


@pytest.mark.slow
def test_a_conversion_with_a_companion_is_the_conversion_without(branch: Branch, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "checkpoint": str(branch.checkpoint),
        "corpus": corpus_file(tmp_path / "corpus.txt"),
        "out_root": tmp_path / "root",
        "out_lower": tmp_path / "lower",
        "settings": QUICK,
        "checkpoints": None,
    }
    alone = convert_in_process(**given, reporter=NullReporter())
    with peer_processes(convert_in_process, given, ("out_root", "out_lower"), 2, cpu=True):
        assert ProcessGroup().world_size == 2
        together = convert_in_process(**given, reporter=NullReporter())
    assert ProcessGroup().world_size == 1
    assert not multiprocessing.active_children()
    for level, figures in alone["distilled"].items():
        assert together["distilled"][level]["cut"] == pytest.approx(figures["cut"], abs=2e-3)


@pytest.mark.slow
def test_a_cancel_ends_the_companions_too(branch: Branch, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "checkpoint": str(branch.checkpoint),
        "corpus": corpus_file(tmp_path / "corpus.txt"),
        "out_root": tmp_path / "root",
        "out_lower": tmp_path / "lower",
        "settings": QUICK,
        "checkpoints": None,
    }
    with (
        pytest.raises(Cancelled),
        peer_processes(convert_in_process, given, ("out_root", "out_lower"), 2, cpu=True),
    ):
        convert_in_process(**given, reporter=CancelAt(3, "distil"))
    assert not multiprocessing.active_children()
    assert ProcessGroup().world_size == 1

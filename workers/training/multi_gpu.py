"""A training function on all GPUs of a machine: this process on the first, a companion on each other one.

Companions run the same function on the same inputs; what they report and write is thrown away, and they end
with this process, however it ends (Linux). The processes find each other through accelerate.
"""

import ctypes
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from accelerate import PartialState
from torch import Tensor, distributed

from workers.training.checkpoints import Checkpoints
from workers.training.progress import Reporter

FARTHEST_S: Final = 10.0


_PR_SET_PDEATHSIG: Final = 1


class PeerLost(Exception):
    """A process of this job ended before the job did; without it the others would wait for ever."""


class _Silent:
    """The reporter of a companion."""

    def stage(self, name: str, total: int) -> None:
        """Nobody listens."""

    def advance(self, step: int, **metrics: float) -> None:
        """Nobody listens."""

    def check(self) -> None:
        """A companion is ended from outside."""


class _Watching:
    """A reporter that also looks, with every check, whether the companions are alive."""

    def __init__(self, reporter: Reporter, peer_processes: Sequence[BaseProcess]) -> None:
        self.stage, self.advance = reporter.stage, reporter.advance
        self._reporter, self._companions = reporter, peer_processes

    def check(self) -> None:
        self._reporter.check()
        for number, companion in enumerate(self._companions, start=1):
            # One that came to its end in peace is only ahead of this process.
            if companion.exitcode:
                raise PeerLost(f"The process of GPU {number} ended with {companion.exitcode}.")


class PeerProcesses:
    """Those that this process has."""

    def __init__(self, processes: Sequence[BaseProcess] = ()) -> None:
        self._processes = processes

    def watched_by(self, reporter: Reporter) -> Reporter:
        """The same reporter, whose `check` also raises CompanionLost when a companion has died."""
        return _Watching(reporter, self._processes) if self._processes else reporter


def gpus(device: str) -> int:
    """How many GPUs a job on `device` can use; 1 where it computes on the CPU or on one of its own."""
    wanted = device in ("auto", "cuda") and torch.cuda.is_available()
    return max(1, torch.cuda.device_count()) if wanted else 1


@contextmanager
def peer_processes(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    outputs: tuple[str, ...],
    count: int,
    *,
    cpu: bool = False,
) -> Iterator[PeerProcesses]:
    """Within the block this process is the first of `count` that run `function` with these arguments (all
    picklable), the folders named in `outputs` being replaced.
    """
    if count < 2:
        yield PeerProcesses()
        return
    # Pickled with them are neither a reporter nor the right to write checkpoints.
    port = _free_port()
    spawn = multiprocessing.get_context("spawn")
    given = (os.getpid(), function, dict(arguments), outputs, count, port, cpu)
    started = [spawn.Process(target=_accompany, args=(number, *given)) for number in range(1, count)]
    for process in started:
        process.start()
    try:
        with _together(0, count, port, cpu):
            yield PeerProcesses(started)
    finally:
        for process in started:
            process.terminate()
            process.join(FARTHEST_S)


def _accompany(
    number: int,
    leader: int,
    function: Callable[..., Any],
    arguments: dict[str, Any],
    outputs: tuple[str, ...],
    count: int,
    port: int,
    cpu: bool,
) -> None:
    _die_with(leader)
    with tempfile.TemporaryDirectory() as nowhere, _together(number, count, port, cpu):
        replaced = {name: Path(nowhere) / name for name in outputs}
        function(**{**arguments, **replaced, "reporter": _Silent()})


def _die_with(leader: int) -> None:
    """Have the kernel kill this process when the one that started it is gone, killed or not."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != leader:  # it ended before the line above
        sys.exit("the job has ended")


@contextmanager
def _together(number: int, count: int, port: int, cpu: bool) -> Iterator[None]:
    """Meet the other processes."""
    told = {
        "RANK": number,
        "LOCAL_RANK": number,
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    before = {name: os.environ.get(name) for name in told}
    os.environ.update({name: str(value) for name, value in told.items()})
    try:
        PartialState(cpu=cpu)
        yield
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()
        PartialState._reset_state()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def reading_only(checkpoints: Checkpoints | None) -> Checkpoints | None:
    """What companions get: they go on from where the job stands, and leave the writing to the first."""
    return None if checkpoints is None else checkpoints.reading_only()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


Item = TypeVar("Item")


class Processes:
    """This process among those that work on one job; alone by default.

    All read the same batches and draw the same numbers; each computes its share of a batch, and the
    gradients are summed, so all hold the same weights after every step.
    """

    @property
    def count(self) -> int:
        """How many there are."""
        return distributed.get_world_size() if _joined() else 1

    @property
    def number(self) -> int:
        """Which of them this is; 0 reports and writes."""
        return distributed.get_rank() if _joined() else 0

    def share(self, parts: Sequence[Item]) -> Sequence[Item]:
        """The parts of a batch that are this process's to compute."""
        return parts[self.number :: self.count]

    def summed(self, value: float) -> float:
        """The sum of a number over the processes."""
        if not _joined():
            return value
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        total = torch.tensor(value, dtype=torch.float64, device=device)
        distributed.all_reduce(total)
        return float(total)

    def any(self, happened: bool) -> bool:
        """Whether it happened in any of the processes."""
        return self.summed(float(happened)) > 0

    def first(self, value: float) -> float:
        """The value that process 0 has: what goes by the clock must go by one clock."""
        return self.summed(value if self.number == 0 else 0.0)

    def sum_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Replace each gradient by its sum over the processes."""
        if _joined():
            for gradient in gradients:
                distributed.all_reduce(gradient)


def _joined() -> bool:
    return distributed.is_available() and distributed.is_initialized()

"""Data-parallel training on all GPUs of a machine: this process on the first, a peer process on each other.

Peers run the same function on the same inputs; their reports and outputs are discarded. They end with this
process, however it ends (Linux). The processes form a group through accelerate.
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

from workers.training.checkpoints import CheckpointStore
from workers.training.progress import Reporter

TERMINATE_TIMEOUT_S: Final = 10.0

_PR_SET_PDEATHSIG: Final = 1


class PeerLost(Exception):
    """A peer process died. The others would wait for it for ever."""


class _NullReporter:
    """The reporter of a peer process, which reports nothing and is terminated from outside."""

    def start_stage(self, name: str, total: int) -> None:
        """Do nothing."""

    def report(self, step: int, **metrics: float) -> None:
        """Do nothing."""

    def raise_if_cancelled(self) -> None:
        """Do nothing."""


class _PeerCheckingReporter:
    """A reporter whose `raise_if_cancelled` also raises `PeerLost` when a peer process has died."""

    def __init__(self, reporter: Reporter, peers: Sequence[BaseProcess]) -> None:
        self.start_stage, self.report = reporter.start_stage, reporter.report
        self._reporter, self._peers = reporter, peers

    def raise_if_cancelled(self) -> None:
        self._reporter.raise_if_cancelled()
        for rank, peer in enumerate(self._peers, start=1):
            # One that exited with 0 has merely finished first.
            if peer.exitcode:
                raise PeerLost(f"The process of GPU {rank} ended with {peer.exitcode}.")


class PeerProcesses:
    """The peers that this process started."""

    def __init__(self, processes: Sequence[BaseProcess] = ()) -> None:
        self._processes = processes

    def wrap(self, reporter: Reporter) -> Reporter:
        """The reporter, whose `raise_if_cancelled` also raises `PeerLost` when a peer has died."""
        return _PeerCheckingReporter(reporter, self._processes) if self._processes else reporter


def run_on_all_gpus(
    function: Callable[..., dict[str, Any]],
    *,
    device: str,
    outputs: tuple[str, ...],
    reporter: Reporter,
    checkpoints: CheckpointStore | None,
    **arguments: Any,
) -> dict[str, Any]:
    """Call `function` here and in one peer process for each further GPU; return what it returns here.

    outputs: the arguments that name output folders. Peers resume from the checkpoints but never write them.
    """
    peer_arguments = arguments | {"checkpoints": checkpoints and checkpoints.read_only()}
    with peer_processes(function, peer_arguments, outputs, gpu_count(device)) as peers:
        return function(**arguments, reporter=peers.wrap(reporter), checkpoints=checkpoints)


def gpu_count(device: str) -> int:
    """How many GPUs a job on `device` can use; 1 for the CPU or one particular GPU."""
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
    """Start `count` - 1 peers that run `function` with these (picklable) arguments while the block runs.

    outputs: the arguments that name output folders; peers write to temporary ones.
    """
    if count < 2:
        yield PeerProcesses()
        return
    port = _free_port()
    spawn = multiprocessing.get_context("spawn")
    given = (os.getpid(), function, dict(arguments), outputs, count, port, cpu)
    started = [spawn.Process(target=_run_peer, args=(rank, *given)) for rank in range(1, count)]
    for process in started:
        process.start()
    try:
        with _join_group(0, count, port, cpu):
            yield PeerProcesses(started)
    finally:
        for process in started:
            process.terminate()
            process.join(TERMINATE_TIMEOUT_S)


def _run_peer(
    rank: int,
    main_pid: int,
    function: Callable[..., Any],
    arguments: dict[str, Any],
    outputs: tuple[str, ...],
    count: int,
    port: int,
    cpu: bool,
) -> None:
    _die_with(main_pid)
    with tempfile.TemporaryDirectory() as temporary, _join_group(rank, count, port, cpu):
        replaced = {name: Path(temporary) / name for name in outputs}
        function(**{**arguments, **replaced, "reporter": _NullReporter()})


def _die_with(main_pid: int) -> None:
    """Have the kernel kill this process when the one that started it ends."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != main_pid:  # it ended before the call above
        sys.exit("the job has ended")


@contextmanager
def _join_group(rank: int, count: int, port: int, cpu: bool) -> Iterator[None]:
    """Join the process group for the time of the block."""
    variables = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update({name: str(value) for name, value in variables.items()})
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


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


Item = TypeVar("Item")


class ProcessGroup:
    """The processes of one job; a single one by default.

    All read the same batches and draw the same random numbers. Each computes its shard of a batch, and
    gradients are summed, so all hold the same weights after every step.
    """

    @property
    def world_size(self) -> int:
        """The number of processes."""
        return distributed.get_world_size() if _joined() else 1

    @property
    def rank(self) -> int:
        """The number of this process; 0 reports and writes."""
        return distributed.get_rank() if _joined() else 0

    def shard(self, parts: Sequence[Item]) -> Sequence[Item]:
        """The parts of a batch that this process computes."""
        return parts[self.rank :: self.world_size]

    def sum(self, value: float) -> float:
        """The sum of a number over the processes."""
        if not _joined():
            return value
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        total = torch.tensor(value, dtype=torch.float64, device=device)
        distributed.all_reduce(total)
        return float(total)

    def any(self, happened: bool) -> bool:
        """Whether it happened in any process."""
        return self.sum(float(happened)) > 0

    def broadcast(self, value: float) -> float:
        """The value of process 0, such as its clock."""
        return self.sum(value if self.rank == 0 else 0.0)

    def sum_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Replace each gradient by its sum over the processes."""
        if _joined():
            for gradient in gradients:
                distributed.all_reduce(gradient)


def _joined() -> bool:
    return distributed.is_available() and distributed.is_initialized()

"""A training function on all GPUs of a machine: this process on the first, a companion on each other one.

Companions run the same function on the same inputs; what they report and write is thrown away, and they end
with this process. The processes find each other through accelerate.
"""

import multiprocessing
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from accelerate import PartialState
from torch import distributed

from workers.training.checkpoints import Checkpoints

FARTHEST_S: Final = 10.0


class _Silent:
    """The reporter of a companion."""

    def stage(self, name: str, total: int) -> None:
        """Nobody listens."""

    def advance(self, step: int, **metrics: float) -> None:
        """Nobody listens."""

    def check(self) -> None:
        """A companion is ended from outside."""


def gpus(device: str) -> int:
    """How many GPUs a job on `device` can use; 1 where it computes on the CPU or on one of its own."""
    wanted = device in ("auto", "cuda") and torch.cuda.is_available()
    return max(1, torch.cuda.device_count()) if wanted else 1


@contextmanager
def companions(
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    outputs: tuple[str, ...],
    count: int,
    *,
    cpu: bool = False,
) -> Iterator[None]:
    """Within the block this process is the first of `count` that run `function` with these arguments (all
    picklable), the folders named in `outputs` being replaced.
    """
    if count < 2:
        yield
        return
    # Pickled with them are neither a reporter nor the right to write checkpoints.
    port = _free_port()
    spawn = multiprocessing.get_context("spawn")
    given = (function, dict(arguments), outputs, count, port, cpu)
    started = [spawn.Process(target=_accompany, args=(number, *given)) for number in range(1, count)]
    for process in started:
        process.start()
    try:
        with _together(0, count, port, cpu):
            yield
    finally:
        for process in started:
            process.terminate()
            process.join(FARTHEST_S)


def _accompany(
    number: int,
    function: Callable[..., Any],
    arguments: dict[str, Any],
    outputs: tuple[str, ...],
    count: int,
    port: int,
    cpu: bool,
) -> None:
    with tempfile.TemporaryDirectory() as nowhere, _together(number, count, port, cpu):
        replaced = {name: Path(nowhere) / name for name in outputs}
        function(**{**arguments, **replaced, "reporter": _Silent()})


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

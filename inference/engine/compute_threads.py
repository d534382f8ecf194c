"""Threads that compute whole batches, side by side on a processor's cores.

Cores that compute one batch together wait for each other after every operation, and for the one thread that
does what cannot be shared; a process that takes one core for a moment delays all. Batches side by side,
each on its own share of the cores, wait for nothing.
"""

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Final, TypeVar

import torch

from inference.engine.pipelining import SYNCHRONISED, Pipelining

Result = TypeVar("Result")
MAX_PARALLEL_BATCHES: Final = 8


def with_parallel_batches(pipelining: Pipelining, device: torch.device) -> Pipelining:
    """The same with as many batches side by side as pay on the device: on a CPU one for each of PyTorch's
    threads, MAX_PARALLEL_BATCHES at most; else one, for a device computes one operation with all that it
    has. It is still computed in a thread of its own: the device would wait while answers are written."""
    if pipelining == SYNCHRONISED:
        return pipelining
    return replace(
        pipelining,
        parallel_batches=min(MAX_PARALLEL_BATCHES, torch.get_num_threads()) if device.type == "cpu" else 1,
    )


def lower_priority(niceness: int) -> None:
    """Add so much to the niceness of this thread, and of the helpers that PyTorch will start for it.

    Others that want a processor get it first; while none does, nothing is lost. Where threads have no
    priority of their own (not on Linux) it does nothing.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niceness)


class ComputeThreads:
    """``count`` threads with a share of PyTorch's threads each, and one that has all. `close` them."""

    def __init__(self, count: int) -> None:
        threads = torch.get_num_threads()
        self._side_by_side = thread_pool("compute", max(1, threads // count), count)
        # A thread of its own: with helpers in one thread alone they may spin while they wait for it.
        self._alone = thread_pool("compute-alone", threads)

    def submit(self, work: Callable[[], Result], *, alone: bool = False) -> "Future[Result]":
        """Begin it as soon as a thread has time for it; the one with all of PyTorch's threads if it is
        ``alone``."""
        return (self._alone if alone else self._side_by_side).submit(work)

    def close(self) -> None:
        """End the threads, after what they have begun."""
        for pool in (self._side_by_side, self._alone):
            pool.shutdown(cancel_futures=True)


def thread_pool(name: str, torch_threads: int, count: int = 1) -> ThreadPoolExecutor:
    """``count`` threads, of which each has so many of PyTorch's.

    A thread that needs no more than one should have no more: OpenMP's helpers take cores from those that
    compute, and where there are more of them than cores, all go to sleep at each barrier instead of spinning.
    """
    threads, together = torch.get_num_threads(), Barrier(count)
    pool = ThreadPoolExecutor(count, name)

    def settle(_: int) -> None:
        torch.get_num_threads()  # a thread's first question sets what it has to what all have
        torch.set_num_threads(torch_threads)
        together.wait()

    # All at once: what PyTorch is told in one thread it takes for those to come, whoever makes them.
    list(pool.map(settle, range(count)))
    torch.set_num_threads(threads)
    return pool

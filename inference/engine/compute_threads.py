"""Threads that compute whole batches, side by side on a processor's cores.

Cores that compute one batch together wait for each other after every operation, and for the one thread that
does what cannot be shared; and whoever else takes one core for a moment holds up all. Batches side by side,
each on its own share of the cores, wait for nothing.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
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


class ComputeThreads:
    """``count`` threads with a share of PyTorch's threads each. `close` them."""

    def __init__(self, count: int) -> None:
        threads, together = torch.get_num_threads(), Barrier(count)
        self._all, self._share = threads, max(1, threads // count)

        def settle(_: int) -> None:
            torch.get_num_threads()  # a thread's first question sets what it has to what all have
            torch.set_num_threads(self._share)
            together.wait()

        self._pool = ThreadPoolExecutor(count, "compute")
        # All at once: what PyTorch is told in one thread it takes for those to come, whoever makes them.
        list(self._pool.map(settle, range(count)))
        torch.set_num_threads(threads)

    def submit(self, work: Callable[[], Result]) -> "Future[Result]":
        """Begin it as soon as a thread has time for it."""
        return self._pool.submit(work)

    @contextmanager
    def all_cores(self) -> Iterator[None]:
        """For the one of these threads that calls it: PyTorch's threads are all its own meanwhile."""
        torch.set_num_threads(self._all)
        try:
            yield
        finally:
            torch.set_num_threads(self._share)

    def close(self) -> None:
        """End the threads, after what they have begun."""
        self._pool.shutdown(cancel_futures=True)

"""Several processes that train one model, each on a GPU of its own (through accelerate)."""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, distributed

Item = TypeVar("Item")


class Processes:
    """This process among those that work on one job; alone by default.

    All read the same batches and draw the same numbers; each computes its share of a batch, and the
    gradients are summed, so all hold the same weights after every step.
    """

    @property
    def count(self) -> int:
        """How many there are."""
        return distributed.get_world_size() if _together() else 1

    @property
    def number(self) -> int:
        """Which of them this is; 0 reports and writes."""
        return distributed.get_rank() if _together() else 0

    def share(self, parts: Sequence[Item]) -> Sequence[Item]:
        """The parts of a batch that are this process's to compute."""
        return parts[self.number :: self.count]

    def summed(self, value: float) -> float:
        """The sum of a number over the processes."""
        if not _together():
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
        if _together():
            for gradient in gradients:
                distributed.all_reduce(gradient)


def _together() -> bool:
    return distributed.is_available() and distributed.is_initialized()

"""Training the embeddings of words: a large table of which a batch touches a few hundred rows.

The rows of a batch stand in for the table, so that neither gradient nor optimiser walks through all of it:
half of a step's time on a vocabulary of 30,000.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_BETAS = (0.9, 0.999)
_EPS = 1e-8


class WordRows:
    """AdamW over the rows that a step touches (as torch's SparseAdam: others keep their moments as they are).

    table: [V, e], changed in place. learning_rate: the peak.
    """

    def __init__(self, table: Tensor, learning_rate: float) -> None:
        self._table, self._learning_rate = table.detach(), learning_rate
        self._mean, self._square = torch.zeros_like(self._table), torch.zeros_like(self._table)
        self._ids = torch.zeros(0, dtype=torch.int64)
        self._place = np.zeros(len(table) + 1, dtype=np.int64)
        self.rows = self._table[:0]

    def take(self, fragments: npt.NDArray[np.int64]) -> None:
        """Bring in the rows of all tokens of `fragments`: `rows` [K, e] is what the next step trains."""
        missing = len(self._table)
        ids = np.unique(fragments[fragments != missing])
        self._place[ids] = np.arange(len(ids))
        # What stands for a missing neighbour stays what it is.
        self._place[missing] = missing
        self._ids = torch.from_numpy(ids).to(self._table.device)
        self.rows = self._table[self._ids].requires_grad_(True)

    def local(self, fragments: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The fragments with the places in `rows` in place of ids."""
        return self._place[fragments]

    def step(self, rate: float, number: int, decay: float) -> None:
        """Step `number` (from 1) with the gradient of `rows`, at `rate` of the peak learning rate."""
        gradient = self.rows.grad
        if gradient is None:
            return
        ids, speed = self._ids, self._learning_rate * rate
        mean = self._mean[ids].mul_(_BETAS[0]).add_(gradient, alpha=1 - _BETAS[0])
        square = self._square[ids].mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
        self._mean[ids], self._square[ids] = mean, square
        size = (square / (1 - _BETAS[1] ** number)).sqrt_().add_(_EPS)
        rows = self.rows.detach() * (1 - speed * decay)
        self._table[ids] = rows.addcdiv_(mean / (1 - _BETAS[0] ** number), size, value=-speed)

    def tensors(self) -> dict[str, Tensor]:
        """The moments, for a checkpoint; the table itself is the model's."""
        return {"words.mean": self._mean, "words.square": self._square}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `tensors`."""
        self._mean.copy_(tensors["words.mean"])
        self._square.copy_(tensors["words.square"])

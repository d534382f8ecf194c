"""AdamW with a learning rate schedule, gradient accumulation and divergence checks, for all trainings."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from accelerate.utils.memory import clear_device_cache
from torch import Tensor
from torch.nn import Parameter

from inference.device_errors import is_out_of_memory
from inference.errors import HplmError
from workers.training.gradient_accumulation import initial_accumulation_steps
from workers.training.multi_gpu import ProcessGroup

_BETAS = (0.9, 0.999)
_EPS = 1e-8


class SparseAdamW:
    """AdamW over the rows of an embedding table that a step uses; other rows keep their moments.

    table: [V, e], changed in place. learning_rate: the peak. rows: the selected ones, [K, e].
    """

    def __init__(self, table: Tensor, learning_rate: float) -> None:
        self._table, self._learning_rate = table.detach(), learning_rate
        self._mean, self._square = torch.zeros_like(self._table), torch.zeros_like(self._table)
        self._ids = torch.zeros(0, dtype=torch.int64)
        self._row_of_id = np.zeros(len(table) + 1, dtype=np.int64)
        self.rows = self._table[:0]

    def select(self, fragments: npt.NDArray[np.int64]) -> None:
        """Make `rows` the rows of all tokens of `fragments`: what the next step trains."""
        missing = len(self._table)
        ids = np.unique(fragments[fragments != missing])
        self._row_of_id[ids] = np.arange(len(ids))
        # The id for a missing neighbour has no row.
        self._row_of_id[missing] = missing
        self._ids = torch.from_numpy(ids).to(self._table.device)
        self.rows = self._table[self._ids].requires_grad_(True)

    def row_numbers(self, fragments: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The fragments with row numbers of `rows` in place of token ids."""
        return self._row_of_id[fragments]

    def step(self, rate: float, number: int, decay: float) -> None:
        """Step `number` (from 1) with the gradient of `rows`, at `rate` of the peak learning rate."""
        gradient = self.rows.grad
        if gradient is None:
            return
        ids, learning_rate = self._ids, self._learning_rate * rate
        mean = self._mean[ids].mul_(_BETAS[0]).add_(gradient, alpha=1 - _BETAS[0])
        square = self._square[ids].mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1 - _BETAS[1])
        self._mean[ids], self._square[ids] = mean, square
        size = (square / (1 - _BETAS[1] ** number)).sqrt_().add_(_EPS)
        rows = self.rows.detach() * (1 - learning_rate * decay)
        self._table[ids] = rows.addcdiv_(mean / (1 - _BETAS[0] ** number), size, value=-learning_rate)

    def state_dict(self) -> dict[str, Tensor]:
        """The moments; the table itself belongs to the model."""
        return {"words.mean": self._mean, "words.square": self._square}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the moments from `state_dict`."""
        self._mean.copy_(tensors["words.mean"])
        self._square.copy_(tensors["words.square"])


WEIGHT_DECAY = 0.01
MAX_GRADIENT_NORM = 1.0

Item = TypeVar("Item")
Losses = Tensor | Sequence[Tensor]
"""A mean loss, or several whose sum is the loss."""
Weight = Callable[[Item], float]
"""What an item counts in a mean."""


class Optimizer:
    """AdamW with gradient clipping, linear warm-up and linear decay to zero.

    groups: dicts with "params" and "lr", the peak learning rate of the group. steps: the length of the
    schedule. words: rows of a large embedding table, of which each step uses few.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        steps: int,
        warmup: int,
        words: SparseAdamW | None = None,
        processes: ProcessGroup | None = None,
    ) -> None:
        listed = [{**group, "params": list(group["params"])} for group in groups]
        self._parameters: list[Parameter] = [p for group in listed for p in group["params"]]
        self._adamw = torch.optim.AdamW(listed, weight_decay=WEIGHT_DECAY, fused=True)
        self._peaks: list[float] = [group["lr"] for group in listed]
        self._steps, self._warmup, self._done = steps, min(warmup, steps // 2), 0
        self._words = words
        self._processes = processes or ProcessGroup()
        self._accumulation_steps = initial_accumulation_steps()

    def train_step(
        self,
        items: Sequence[Item],
        loss_of: Callable[[list[Item]], Losses],
        *,
        weight_of: Weight[Item] | Sequence[Weight[Item]] = len,  # type: ignore[assignment]
        progress: float | None = None,
    ) -> float:
        """Take one step on the mean loss of `items` and return that loss. `loss_of` gives the mean of some.

        weight_of: what an item counts in the mean. If `loss_of` returns several means, `weight_of` holds one
        function for each. progress: the share of the work that is done, where the schedule does not follow
        the number of steps.

        If memory runs out, this and all later steps accumulate gradients over smaller parts of the batch.
        Raises HplmError: "out_of_memory" when one item does not fit; "training_diverged", in every process.
        """
        weights = weight_of if isinstance(weight_of, Sequence) else [weight_of]
        while True:
            losses, lack = self._try_backward(items, loss_of, weights)
            # All processes must split alike.
            if not self._processes.any(lack is not None):
                break
            self._split_more(len(items), lack)
        gradients = self._gradients()
        self._processes.sum_gradients(gradients)
        # Read together, once everything is queued: the only time that a step waits for a GPU.
        *values, norm = torch.stack([*losses, torch.nn.utils.get_total_norm(gradients)]).tolist()
        # A sum with NaN is NaN: all processes notice, and end alike.
        loss = self._require_finite(self._processes.sum(sum(values)), "loss")
        self._apply(gradients, self._require_finite(norm, "gradient"), progress)
        return loss

    def _try_backward(
        self,
        items: Sequence[Item],
        loss_of: Callable[[list[Item]], Losses],
        weights: Sequence[Weight[Item]],
    ) -> tuple[list[Tensor], str | None]:
        """The losses of this process's parts, their gradients computed; or what the error says if memory ran
        out."""
        self._clear_gradients()
        try:
            return self._accumulate(items, loss_of, weights), None
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            # The error itself would keep the frames of this attempt, and with them its tensors.
            return [], str(error)

    def _accumulate(
        self,
        items: Sequence[Item],
        loss_of: Callable[[list[Item]], Losses],
        weights: Sequence[Weight[Item]],
    ) -> list[Tensor]:
        """Add up gradients over the parts of the batch; return what each part adds to the loss."""
        totals = [sum(weight_of(item) for item in items) for weight_of in weights]
        losses = []
        parts = list(_split(items, self._accumulation_steps * self._processes.world_size))
        for part in self._processes.shard(parts):
            means = loss_of(part)
            shares = [
                mean * (sum(weight_of(item) for item in part) / total)
                for mean, weight_of, total in zip(
                    [means] if isinstance(means, Tensor) else means, weights, totals, strict=True
                )
            ]
            loss = reduce(torch.add, shares)
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
        return losses

    def _split_more(self, items: int, lack: str | None) -> None:
        """Accumulate over twice as many parts from now on. lack: what the error of this process said."""
        if self._accumulation_steps >= items:
            raise HplmError(
                "out_of_memory",
                "The machine ran out of memory on a single text. Try again when it is less busy, or with a "
                "smaller maximum of tokens.",
            ) from MemoryError(lack or "in another process of the job")
        self._accumulation_steps *= 2
        self._clear_gradients()
        clear_device_cache(garbage_collection=True)

    def _clear_gradients(self) -> None:
        self._adamw.zero_grad(set_to_none=True)
        if self._words is not None:
            self._words.rows.grad = None

    def _require_finite(self, value: float, name: str) -> float:
        if not math.isfinite(value):
            raise HplmError("training_diverged", f"The {name} became {value} at step {self._done + 1}.")
        return value

    def _apply(self, gradients: list[Tensor], norm: float, progress: float | None) -> None:
        """Step with these gradients, whose total norm is `norm`."""
        if norm > MAX_GRADIENT_NORM:
            torch._foreach_mul_(gradients, MAX_GRADIENT_NORM / norm)
        rate = self._rate(progress)
        for group, peak in zip(self._adamw.param_groups, self._peaks, strict=True):
            group["lr"] = peak * rate
        self._adamw.step()
        self._done += 1
        if self._words is not None:
            self._words.step(rate, self._done, WEIGHT_DECAY)

    def _gradients(self) -> list[Tensor]:
        trained = [*self._parameters, *([self._words.rows] if self._words is not None else [])]
        if self._processes.world_size > 1:
            # Another process may have a gradient where this one has none.
            for parameter in trained:
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        return [parameter.grad for parameter in trained if parameter.grad is not None]

    def _rate(self, progress: float | None) -> float:
        """The learning rate of the next step, as a share of the peak."""
        if self._done < self._warmup:
            return (self._done + 1) / self._warmup
        if progress is not None:
            return max(0.0, 1.0 - progress)
        return max(0.0, (self._steps - self._done) / max(1, self._steps - self._warmup))

    def state_dict(self) -> dict[str, Tensor]:
        """The optimizer's moments, for a checkpoint."""
        found: dict[str, Tensor] = {}
        for number, parameter in enumerate(self._parameters):
            for name, value in self._adamw.state.get(parameter, {}).items():
                found[f"adamw.{number}.{name}"] = value
        return found | (self._words.state_dict() if self._words is not None else {})

    def load_state_dict(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Restore `state_dict` as it was after `steps` steps."""
        self._done = steps
        for number, parameter in enumerate(self._parameters):
            if state := with_prefix(tensors, f"adamw.{number}."):
                self._adamw.state[parameter] = {n: v.to(parameter.device) for n, v in state.items()}
        if self._words is not None:
            self._words.load_state_dict(tensors)


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix`, by their names without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _split(items: Sequence[Item], parts: int) -> Iterator[list[Item]]:
    size = -(-len(items) // parts)
    for start in range(0, len(items), size):
        yield list(items[start : start + size])

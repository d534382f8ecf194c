"""AdamW as every training loop uses it, whole or for the embedding rows that a batch touches."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import Parameter

from inference.hplm.errors import HplmError
from workers.training.batch_parts import first_parts
from workers.training.multi_gpu import Processes

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


WEIGHT_DECAY = 0.01
MAX_GRADIENT_NORM = 1.0

Item = TypeVar("Item")
Losses = Tensor | Sequence[Tensor]
"""One mean, or the means that a loss is the sum of."""
Weights = Callable[[Item], float] | Sequence[Callable[[Item], float]]
"""What an item counts in the mean, or in each of them."""


class Optimiser:
    """AdamW with gradient clipping, a linear warm-up and a linear decay to zero.

    groups: dicts with "params" and "lr", the peak learning rate of the group. steps: how many there will be,
    for a schedule that goes by them. words: rows of a large table, of which a step touches few.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        *,
        steps: int,
        warmup: int,
        words: WordRows | None = None,
        processes: Processes | None = None,
    ) -> None:
        listed = [{**group, "params": list(group["params"])} for group in groups]
        self._parameters: list[Parameter] = [p for group in listed for p in group["params"]]
        self._adamw = torch.optim.AdamW(listed, weight_decay=WEIGHT_DECAY, fused=True)
        self._peaks: list[float] = [group["lr"] for group in listed]
        self._steps, self._warmup, self._done = steps, min(warmup, steps // 2), 0
        self._words = words
        self._processes = processes or Processes()
        self._parts = first_parts()

    def step(self, loss: Tensor, *, progress: float | None = None) -> float:
        """Go one step down `loss` and return it. Raises HplmError("training_diverged") on NaN or infinity.

        progress: share of the work that is done, where the schedule does not go by the number of steps.
        """
        self._adamw.zero_grad(set_to_none=True)
        value = self._finite(_backward(loss))
        self._apply(progress)
        return value

    def descend(
        self,
        items: Sequence[Item],
        loss_of: Callable[[list[Item]], Losses],
        *,
        weight_of: Weights[Item] = len,  # type: ignore[assignment]
        progress: float | None = None,
    ) -> float:
        """One step down the mean loss of `items`, and that mean, where `loss_of` gives the mean of some.

        weight_of: what an item counts in the mean. Where the loss is a sum of means over different things,
        `loss_of` gives them one by one, and `weight_of` is what an item counts in each.

        When memory runs out the items are taken in ever smaller parts, in this step and in all later ones.
        Raises HplmError: "out_of_memory" when not even one item fits, "training_diverged", in every process.
        """
        weights = weight_of if isinstance(weight_of, Sequence) else [weight_of]
        while True:
            value, error = self._tried(items, loss_of, weights)
            # What one process has no room for, none does.
            if not self._processes.any(error is not None):
                break
            self._smaller(len(items), error)
        # A sum with what is no number is none either: all processes come to know, and end alike.
        value = self._finite(self._processes.summed(value))
        self._apply(progress)
        return value

    def _tried(
        self,
        items: Sequence[Item],
        loss_of: Callable[[list[Item]], Losses],
        weights: Sequence[Callable[[Item], float]],
    ) -> tuple[float, BaseException | None]:
        self._adamw.zero_grad(set_to_none=True)
        if self._words is not None:
            self._words.rows.grad = None
        try:
            return self._all_parts(items, loss_of, weights), None
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            return 0.0, error

    def _all_parts(
        self,
        items: Sequence[Item],
        loss_of: Callable[[list[Item]], Losses],
        weights: Sequence[Callable[[Item], float]],
    ) -> float:
        """The share that this process has in the mean; not finite where it diverged, and then without the
        gradients of the rest.
        """
        whole = [sum(weight_of(item) for item in items) for weight_of in weights]
        total = 0.0
        for part in self._processes.share(list(_cut(items, self._parts * self._processes.count))):
            found = loss_of(part)
            terms = [found] if isinstance(found, Tensor) else found
            shares = [
                term * (sum(weight_of(item) for item in part) / of_all)
                for term, weight_of, of_all in zip(terms, weights, whole, strict=True)
            ]
            total += _backward(reduce(torch.add, shares))
            if not math.isfinite(total):
                break
        return total

    def _smaller(self, items: int, error: BaseException | None) -> None:
        if self._parts >= items:
            raise HplmError(
                "out_of_memory",
                "The machine ran out of memory on a single text. Try again when it is less busy, or with a "
                "smaller maximum of tokens.",
            ) from error
        self._parts *= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _finite(self, value: float) -> float:
        if not math.isfinite(value):
            raise HplmError("training_diverged", f"The loss became {value} at step {self._done + 1}.")
        return value

    def _apply(self, progress: float | None) -> None:
        gradients = self._gradients()
        self._processes.sum_gradients(gradients)
        norm = float(torch.nn.utils.get_total_norm(gradients))
        if not math.isfinite(norm):
            raise HplmError("training_diverged", f"The gradient became {norm} at step {self._done + 1}.")
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
        learning = [*self._parameters, *([self._words.rows] if self._words is not None else [])]
        if self._processes.count > 1:
            # What no text of this process touched, another's may have.
            for parameter in learning:
                parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        return [parameter.grad for parameter in learning if parameter.grad is not None]

    def _rate(self, progress: float | None) -> float:
        if self._done < self._warmup:
            return (self._done + 1) / self._warmup
        if progress is not None:
            return max(0.0, 1.0 - progress)
        return max(0.0, (self._steps - self._done) / max(1, self._steps - self._warmup))

    def tensors(self) -> dict[str, Tensor]:
        """What has been learnt about the gradients, for a checkpoint."""
        found: dict[str, Tensor] = {}
        for number, parameter in enumerate(self._parameters):
            for name, value in self._adamw.state.get(parameter, {}).items():
                found[f"adamw.{number}.{name}"] = value
        return found | (self._words.tensors() if self._words is not None else {})

    def restore(self, tensors: Mapping[str, Tensor], done: int) -> None:
        """Go on from what `tensors` gave after `done` steps."""
        self._done = done
        for number, parameter in enumerate(self._parameters):
            prefix = f"adamw.{number}."
            state = {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}
            if state:
                self._adamw.state[parameter] = {n: v.to(parameter.device) for n, v in state.items()}
        if self._words is not None:
            self._words.restore(tensors)


def _backward(loss: Tensor) -> float:
    """The loss, its gradients added to those there are where it is a number."""
    value = float(loss.detach())
    if math.isfinite(value):
        loss.backward()  # type: ignore[no-untyped-call]
    return value


def _cut(items: Sequence[Item], parts: int) -> Iterator[list[Item]]:
    size = -(-len(items) // parts)
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def _out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    said = str(error)
    return "not enough memory" in said or "out of memory" in said or "alloc_cpu" in said

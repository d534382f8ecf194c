"""One way to take a step, for every training loop."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from inference.hplm.errors import HplmError

WEIGHT_DECAY = 0.01
LONGEST_GRADIENT = 1.0


class Optimiser:
    """AdamW with gradient clipping, a linear warm-up and a linear decay to zero.

    groups: dicts with "params" and "lr", the peak learning rate of the group.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], *, steps: int, warmup: int) -> None:
        listed = [{**group, "params": list(group["params"])} for group in groups]
        self._parameters: list[Parameter] = [p for group in listed for p in group["params"]]
        self._adamw = torch.optim.AdamW(listed, weight_decay=WEIGHT_DECAY, fused=True)
        self._peaks: list[float] = [group["lr"] for group in listed]
        self._steps, self._warmup, self._done = steps, min(warmup, steps // 2), 0

    def step(self, loss: Tensor) -> float:
        """Go one step down `loss` and return it. Raises HplmError("training_diverged") on NaN or infinity."""
        value = float(loss.detach())
        if not math.isfinite(value):
            raise HplmError("training_diverged", f"The loss became {value} at step {self._done + 1}.")
        for group, peak in zip(self._adamw.param_groups, self._peaks, strict=True):
            group["lr"] = peak * self._share()
        self._adamw.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(torch.nn.utils.clip_grad_norm_(self._parameters, LONGEST_GRADIENT))
        if not math.isfinite(norm):
            raise HplmError("training_diverged", f"The gradient became {norm} at step {self._done + 1}.")
        self._adamw.step()
        self._done += 1
        return value

    def _share(self) -> float:
        if self._done < self._warmup:
            return (self._done + 1) / self._warmup
        return max(0.0, (self._steps - self._done) / max(1, self._steps - self._warmup))

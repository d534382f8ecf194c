"""Hidden states at the cut and at the last layer: the original model's, and those of its local lower half."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.compose import compose
from inference.hplm.full_lower import FullLower
from inference.hplm.local_lower import LocalLower
from inference.hplm.upper import UpperLayers
from workers.training.precision import Arithmetic
from workers.training.sequences import Batch


@dataclass(frozen=True)
class Teacher:
    """The untouched checkpoint: its lower layers with full context, and its upper layers."""

    lower: FullLower
    upper: UpperLayers
    arithmetic: Arithmetic

    @torch.no_grad()
    def at_cut(self, batch: Batch) -> Tensor:
        """States after the lower layers, [B, T, d] float32."""
        device = self.arithmetic.device
        with self.arithmetic.autocast():
            states: Tensor = self.lower(batch.ids.to(device), batch.mask.to(device))
        return states.float()

    def upper_states(self, at_cut: Tensor, batch: Batch) -> Tensor:
        """The (frozen) upper layers on any states at the cut; gradients flow through."""
        with self.arithmetic.autocast():
            states: Tensor = self.upper(at_cut, batch.mask.to(at_cut.device), None)
        return states.float()


def local_states(
    local: LocalLower,
    batch: Batch,
    arithmetic: Arithmetic,
    degraded: npt.NDArray[np.int64] | None = None,
) -> Tensor:
    """States at the cut from fragments, [B, T, d] float32.

    degraded: [U, 3], what to read instead of `batch.unique`, as fall-back would.
    """
    wanted = torch.from_numpy(batch.unique if degraded is None else degraded).to(arithmetic.device)
    with arithmetic.autocast():
        slots: Tensor = local(wanted)
    slots = slots.float()[batch.where.to(arithmetic.device)]
    return compose(slots, batch.lengths.to(arithmetic.device), local.composition)


def fall_back_at_random(
    unique: npt.NDArray[np.int64],
    missing_id: int,
    rng: np.random.Generator,
    shares: dict[int, float],
) -> npt.NDArray[np.int64]:
    """Degrade a random share of the complete tri-grams to each level, as an incomplete table does."""
    result = unique.copy()
    draw = rng.random(len(unique))
    complete = fragments.level_of(unique, missing_id) == fragments.LEVEL_TRI
    edge = 0.0
    for level, share in shares.items():
        chosen = complete & (draw >= edge) & (draw < edge + share)
        result[chosen] = fragments.degrade(unique[chosen], level, missing_id)
        edge += share
    return result

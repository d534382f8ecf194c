"""Hidden states at the cut and at the last layer: the original model's, and those of its local lower half."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from inference.hplm.compose import Composition, compose
from inference.hplm.encoder import FullLower, UpperLayers
from inference.hplm.local_lower import LocalLower
from workers.training.optimizer import WordRows
from workers.training.precision import Arithmetic
from workers.training.sequences import Batch

WORDS = "embeddings.words.weight"


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
            states: Tensor = self.lower(batch.ids.to(device), batch.mask.to(device), batch.types.to(device))
        return states.float()

    def upper_states(self, at_cut: Tensor, batch: Batch) -> Tensor:
        """The (frozen) upper layers on any states at the cut; gradients flow through."""
        with self.arithmetic.autocast():
            states: Tensor = self.upper(at_cut, batch.mask.to(at_cut.device), None)
        return states.float()

    @torch.no_grad()
    def every_layer(self, at_cut: Tensor, batch: Batch) -> list[Tensor]:
        """States at the cut and after each upper layer, [B, T, d] float32 all."""
        found, mask = [at_cut], batch.mask.to(at_cut.device)
        with self.arithmetic.autocast():
            for index in range(len(self.upper.layers)):
                found.append(self.upper.step(index, found[-1].to(self.upper.dtype), mask, None))
        return [states.float() for states in found]


def local_slots(
    local: LocalLower, batch: Batch, arithmetic: Arithmetic, words: WordRows | None = None
) -> Tensor:
    """Contributions [B, T, n, d] float32 of what is read for each token.

    words: rows of the word embeddings that are being trained, in place of the table.
    """
    read = batch.unique if words is None else words.local(batch.unique)
    wanted = torch.from_numpy(read).to(arithmetic.device)
    with arithmetic.autocast():
        if words is None:
            rows: Tensor = local(wanted)
        else:
            rows = functional_call(local, {WORDS: words.rows}, (wanted,))
    return rows.float()[batch.where.to(arithmetic.device)]


def local_states(
    local: LocalLower, batch: Batch, arithmetic: Arithmetic, words: WordRows | None = None
) -> Tensor:
    """States at the cut from fragments, [B, T, d] float32."""
    slots = local_slots(local, batch, arithmetic, words)
    return composed(slots, batch, local.composition)


def composed(slots: Tensor, batch: Batch, parts: Composition) -> Tensor:
    """`compose` for a batch."""
    return compose(slots, batch.lengths.to(slots.device), parts, batch.types.to(slots.device))

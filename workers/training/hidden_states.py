"""Hidden states at the cut and above: with full context, and from fragments."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from inference.hplm.compose import compose
from inference.hplm.encoder import FullLower, UpperLayers
from inference.hplm.local_lower import LocalLower
from inference.hplm.upload import Upload
from workers.training.optimizer import SparseAdamW
from workers.training.precision import Precision
from workers.training.sequences import Batch

WORDS = "embeddings.words.weight"


@dataclass(frozen=True)
class Teacher:
    """The original model: its lower layers with full context, and its upper layers."""

    lower: FullLower
    upper: UpperLayers
    precision: Precision

    @torch.no_grad()
    def at_cut(self, batch: Batch) -> Tensor:
        """States after the lower layers, [B, T, d] float32."""
        return full_states(self.lower, batch, self.precision)

    def upper_states(self, at_cut: Tensor, batch: Batch) -> Tensor:
        """States after the frozen upper layers, from any states at the cut; differentiable."""
        with self.precision.autocast():
            states: Tensor = self.upper(at_cut, batch.on_device.mask, None)
        return states.float()

    @torch.no_grad()
    def all_layers(self, at_cut: Tensor, batch: Batch) -> list[Tensor]:
        """States at the cut and after each upper layer, each [B, T, d] float32."""
        found, mask = [at_cut], batch.on_device.mask
        with self.precision.autocast():
            for index in range(len(self.upper.layers)):
                found.append(self.upper.step(index, found[-1].to(self.upper.dtype), mask, None))
        return [states.float() for states in found]


def full_states(
    full: FullLower, batch: Batch, precision: Precision, words: SparseAdamW | None = None
) -> Tensor:
    """States at the cut with full context, [B, T, d] float32.

    words: the rows of the word embeddings that are being trained, in place of the table.
    """
    there = batch.on_device
    ids = there.ids
    if words is not None:
        # The token at padding is not among the rows; its state means nothing.
        rows = np.where(batch.mask.numpy(), words.row_numbers(batch.ids.numpy()), 0)
        ids = Upload(batch.device).add(rows).tensor
    given = (ids, there.mask, there.types)
    with precision.autocast():
        if words is None:
            states: Tensor = full(*given)
        else:
            states = functional_call(full, {WORDS: words.rows}, given)
    return states.float()


def local_states(
    local: LocalLower, batch: Batch, precision: Precision, words: SparseAdamW | None = None
) -> Tensor:
    """States at the cut from fragments, [B, T, d] float32.

    words: the rows of the word embeddings that are being trained, in place of the table.
    """
    unique = batch.unique if words is None else words.row_numbers(batch.unique)
    lookups = torch.from_numpy(unique)
    with precision.autocast():
        if words is None:
            rows: Tensor = local(lookups)
        else:
            rows = functional_call(local, {WORDS: words.rows}, (lookups,))
    return composed_states(local, rows, batch)


def composed_states(local: LocalLower, rows: Tensor, batch: Batch) -> Tensor:
    """States at the cut, [B, T, d] float32, of the vectors [U, n, d] of the batch's lookups."""
    there = batch.on_device
    slots = rows.float()[there.lookup_index]
    return compose(slots, there.lengths, local.composition, there.types, there.levels)

"""`compose` for a batch that is served: texts laid end to end, each contribution held once, and all that is
known of the texts beforehand worked out on the host."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from inference.hplm.bucketed_linear import added
from inference.hplm.compose import Composition
from inference.hplm.fragments import reach

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Texts end to end, N tokens of ``lengths`` [B] in all. speakers [N, n + 1, or n + 2 where there is more
    than one token type]: which of `vectors` a token's state is the sum of. These are made of ``rows`` rows
    and the biases."""

    speakers: Ids
    lengths: Ids
    rows: int

    @property
    def starts(self) -> Ids:
        """Where each text begins [B]."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def longest(self) -> int:
        return int(self.lengths.max())


def lay_out(place: Ids, lengths: Ids, types: Ids, *, n: int, rows: int, kinds: int) -> Layout:
    """place [N]: which of the rows is the token's own fragment's; types [N], of ``kinds`` that there are."""
    # Behind the contributions stand the biases of types, the first of which is nothing, and of positions.
    nothing = rows * n
    of_text = np.repeat(np.arange(len(lengths)), lengths)
    at = np.arange(len(place)) - (np.cumsum(lengths) - lengths)[of_text]
    typed = bool(types.any())
    speakers = np.empty((len(place), n + 1 + typed), dtype=np.int64)
    for slot in range(n):
        away = reach(n)[0] - slot
        there = (at + away >= 0) & (at + away < lengths[of_text])
        speakers[:, slot] = np.where(there, np.roll(place, -away) * n + slot, nothing)
    speakers[:, n] = nothing + kinds + at
    if typed:
        speakers[:, n + 1] = nothing + types
    return Layout(speakers, lengths, rows)


def vectors(rows: Tensor, layout: Layout, parts: Composition) -> Tensor:
    """What the sums are made of [V, d]: the contributions ``rows`` [R, n, d], then those of types and of
    positions. Where `rows` has room behind those R, they are written there instead of copying it all."""
    n, hidden = rows.shape[1:]
    behind = parts.biases[: parts.types + layout.longest]
    # The kernel adds up in single precision; where the layers above are rougher than half precision, so may
    # be what it adds and gives.
    if parts.context_down.dtype == torch.float32 or rows.dtype != torch.float16:
        wide = torch.promote_types(rows.dtype, behind.dtype)
        return torch.cat([rows[: layout.rows].reshape(-1, hidden).to(wide), behind.to(wide)])
    flat, begin = rows.view(-1, hidden), layout.rows * n
    if len(flat) < begin + len(behind):
        return torch.cat([flat[:begin], behind.to(flat.dtype)])
    flat[begin : begin + len(behind)] = behind
    return flat


def spare_rows(longest: int, types: int, n: int) -> int:
    """How many rows of n contributions the biases of texts of at most ``longest`` tokens take."""
    return -(-(longest + types) // n)


def compose_flat(contributions: Tensor, layout: Layout, parts: Composition) -> Tensor:
    """Token states [N, d] of `vectors`, as `compose` makes them. Where `parts.context_down` is float32 they
    are as exact, else they have its type, and each sum is rounded once."""
    device = contributions.device
    speakers = torch.from_numpy(layout.speakers).to(device)
    states = functional.embedding_bag(speakers, contributions, mode="sum")
    if not len(parts.context_up):
        return states
    # From half precision straight to bfloat16 a CPU takes five times as long.
    states = states.float().to(parts.context_down.dtype)
    return added(states, _around(states, layout, parts), parts.context_up)


def _around(states: Tensor, layout: Layout, parts: Composition) -> Tensor:
    """What stands around each token, at low rank [N, r]."""
    rank, device = parts.context_down.shape[2], states.device
    first = torch.from_numpy(layout.starts).to(device)
    last = torch.from_numpy(layout.starts + layout.lengths - 1).to(device)
    across = added(states.new_zeros(4 * rank), states, parts.context_across)
    own, before, after, everywhere = torch.split(across, rank, 1)
    summed = own.clone()
    summed[1:] += before.index_fill_(0, last, 0)[:-1]
    summed[:-1] += after.index_fill_(0, first, 0)[1:]
    mean = functional.embedding_bag(
        torch.arange(len(states), device=device), everywhere.float(), first, mode="mean"
    )
    of_text = torch.from_numpy(np.repeat(np.arange(len(layout.lengths)), layout.lengths)).to(device)
    summed += mean.to(summed.dtype).index_select(0, of_text)
    return summed

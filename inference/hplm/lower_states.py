"""From token ids to the states at the cut, whatever a PLOT lacks: looked up, computed by fragment, or whole.

The serving engine and the evaluation of an hPLM both come through here, so that they see the same states.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.hplm.compose import Composition, PackedLayout, compose_packed, concatenate, source_vectors
from inference.hplm.miss_policy import MissHandling
from inference.hplm.plot_lookup import (
    HitCounts,
    Ids,
    Levels,
    LookupPart,
    LookupResult,
    LowerLayers,
    TextBatch,
    lookup,
)

FRAGMENT_BATCH = 2048


@dataclass(frozen=True, slots=True, eq=False)
class LowerStates:
    """states [B, T, d] on the device and mask [B, T] bool
    (true: a token is there); per text its counts, the fragments [M, n] that its chain does not hold, and what
    each token was given (see `LookupPart`) where that was asked for."""

    states: Tensor
    mask: Tensor
    counts: list[HitCounts]
    missed: list[Ids]
    given: list[Levels | None]


def compute_lower_states(
    ids: Sequence[Ids],
    halves: Sequence[LowerLayers],
    misses: Sequence[MissHandling],
    types: Sequence[Ids] | None = None,
    explain: Sequence[bool] | None = None,
) -> LowerStates:
    """The states at the cut of texts `ids` (each [T_b] int64), each from its own lower half and by its own
    policy; `types` are their token types (default: zeros); `explain`: of which it is to be told what each
    token was given (default: of none).

    What is computed is computed once for each different fragment of the batch and lower half. Raises what a
    chain's lookup raises.
    """
    return finish_lower_states(lookup(ids, halves, misses, types, explain))


@torch.no_grad()
def finish_lower_states(sought: LookupResult, dtype: torch.dtype = torch.float32) -> LowerStates:
    """The states, in that type, of a batch of which the tables have been asked: what they gave is moved to
    the device and summed up, the rest computed there."""
    texts, device = sought.texts, sought.parts[0].half.device
    lengths = torch.tensor([len(row) for row in texts.ids], device=device)
    mask = torch.arange(texts.longest, device=device) < lengths[:, None]
    sheet = _StateBuffer(texts, mask, dtype)
    for part in sought.parts:
        if part.layout:
            sheet.put_composed(part, part.layout)
        if part.whole:
            sheet.put_whole(part)
    assert sheet.states is not None
    counts = {at: count for part in sought.parts for at, count in part.counts.items()}
    missed = {at: lacking for part in sought.parts for at, lacking in part.missed.items()}
    given = {at: levels for part in sought.parts for at, levels in part.given.items()}
    every = range(len(texts.ids))
    return LowerStates(
        sheet.states,
        mask,
        [counts[at] for at in every],
        [missed[at] for at in every],
        [given.get(at) for at in every],
    )


class _StateBuffer:
    """The states of a batch while they are put together, one lower half after the other."""

    def __init__(self, texts: TextBatch, mask: Tensor, dtype: torch.dtype) -> None:
        self.states: Tensor | None = None
        self._texts, self._mask, self._dtype = texts, mask, dtype

    def put_composed(self, part: LookupPart, layout: PackedLayout) -> None:
        """From contributions to states."""
        half, longest = part.half, self._texts.longest
        parts = half.composition or half.chain.composition.to(half.device)
        states = compose_packed(_contributions(part, layout, parts), layout, parts)
        if len(states) == self._mask.numel():  # every text of the batch, and all of one length
            self.states = states.to(self._dtype).view(*self._mask.shape, -1)
            return
        shift = np.array(part.looked_up) * longest - layout.starts
        places = np.arange(len(states)) + np.repeat(shift, layout.lengths)
        self._put(torch.from_numpy(places).to(half.device), states)

    def put_whole(self, part: LookupPart) -> None:
        """Texts through the root's own lower layers."""
        assert part.half.full is not None
        mask = self._mask[torch.tensor(part.whole, device=self._mask.device)]
        tokens = int(mask.sum(1).max())
        mask = mask[:, :tokens]
        ids, types = (
            self._padded([kind[at] for at in part.whole], tokens)
            for kind in (self._texts.ids, self._texts.types)
        )
        states = part.half.full(ids, mask, types).float()
        starts = torch.tensor(part.whole, device=mask.device)[:, None] * self._texts.longest
        self._put((starts + torch.arange(tokens, device=mask.device))[mask], states[mask])

    def _put(self, places: Tensor, states: Tensor) -> None:
        """Write states [N, d] to places [N] of the batch's [B * T]."""
        if self.states is None:
            self.states = states.new_zeros(*self._mask.shape, states.shape[1], dtype=self._dtype)
        self.states.view(-1, states.shape[1])[places] = states.to(self._dtype)

    def _padded(self, rows: Sequence[Ids], tokens: int) -> Tensor:
        padded = np.zeros((len(rows), tokens), dtype=np.int64)
        for number, row in enumerate(rows):
            padded[number, : len(row)] = row
        return torch.from_numpy(padded).to(self._mask.device)


def _contributions(part: LookupPart, layout: PackedLayout, parts: Composition) -> Tensor:
    """`source_vectors` of everything the tables and the local lower layers say."""
    half, rows = part.half, part.rows
    copied = rows.rows.to(half.device, non_blocking=True)
    resident = [
        some.rows.index_select(0, torch.from_numpy(some.slots).to(half.device)) for some in rows.resident
    ]
    if not resident and not len(part.computed):
        return source_vectors(copied, layout, parts)
    table = copied[: rows.copied]
    if resident:
        table = concatenate([table, *resident])
    if not len(part.computed):
        return source_vectors(table, layout, parts)
    assert half.local is not None
    wanted = torch.from_numpy(part.computed).to(half.device)
    computed = [half.local(some) for some in torch.split(wanted, FRAGMENT_BATCH)]
    return source_vectors(torch.cat([table.float(), *computed]), layout, parts)

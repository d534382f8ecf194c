"""Computes hidden states at the cut: from table rows, computed fragments, or the full lower layers.

The serving engine and the evaluation of a model both use it, so that they see the same states.
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
"""Fragments that are computed at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class LowerLayersOutput:
    """Hidden states of B texts at the cut, and how they were made.

    states [B, T, d] and mask [B, T] bool (true: a token) are on the device. counts, missed (fragments [M, n]
    int64 that no table holds) and token_levels (see `LookupPart`; None if not requested) are per text.
    """

    states: Tensor
    mask: Tensor
    counts: list[HitCounts]
    missed: list[Ids]
    token_levels: list[Levels | None]


def compute_lower_states(
    ids: Sequence[Ids],
    lowers: Sequence[LowerLayers],
    misses: Sequence[MissHandling],
    types: Sequence[Ids] | None = None,
    explain: Sequence[bool] | None = None,
) -> LowerLayersOutput:
    """The hidden states at the cut, float32, of a batch of texts.

    ids, types: token ids and token types (default: zeros) of each text, [T_b] int64. lowers, misses: the
    lower layers and the miss handling of each text. explain: whether to return its token_levels.

    A fragment that several texts miss is computed once. Raises what `PlotChain.search` raises.
    """
    return finish_lower_states(lookup(ids, lowers, misses, types, explain))


@torch.no_grad()
def finish_lower_states(result: LookupResult, dtype: torch.dtype = torch.float32) -> LowerLayersOutput:
    """The hidden states in ``dtype`` from the result of a lookup.

    Moves the table rows to the device, computes what is missing, and composes both to states.
    """
    texts, device = result.texts, result.parts[0].lower.device
    lengths = torch.tensor([len(row) for row in texts.ids], device=device)
    mask = torch.arange(texts.max_length, device=device) < lengths[:, None]
    buffer = _StateBuffer(texts, mask, dtype)
    for part in result.parts:
        if part.layout:
            buffer.write_composed(part, part.layout)
        if part.full_context:
            buffer.write_full_context(part)
    assert buffer.states is not None
    counts = {at: count for part in result.parts for at, count in part.counts.items()}
    missed = {at: fragments for part in result.parts for at, fragments in part.missed.items()}
    token_levels = {at: levels for part in result.parts for at, levels in part.token_levels.items()}
    every = range(len(texts.ids))
    return LowerLayersOutput(
        buffer.states,
        mask,
        [counts[at] for at in every],
        [missed[at] for at in every],
        [token_levels.get(at) for at in every],
    )


class _StateBuffer:
    """The states [B, T, d] of a batch, written part by part."""

    def __init__(self, texts: TextBatch, mask: Tensor, dtype: torch.dtype) -> None:
        self.states: Tensor | None = None
        self._texts, self._mask, self._dtype = texts, mask, dtype

    def write_composed(self, part: LookupPart, layout: PackedLayout) -> None:
        """Write the states of the texts that are composed from fragments."""
        lower, max_length = part.lower, self._texts.max_length
        composition = lower.composition or lower.chain.composition.to(lower.device)
        states = compose_packed(_source_vectors(part, layout, composition), layout, composition)
        if len(states) == self._mask.numel():  # all texts of the batch, without padding
            self.states = states.to(self._dtype).view(*self._mask.shape, -1)
            return
        shift = np.array(part.looked_up) * max_length - layout.starts
        positions = np.arange(len(states)) + np.repeat(shift, layout.lengths)
        self._write(torch.from_numpy(positions).to(lower.device), states)

    def write_full_context(self, part: LookupPart) -> None:
        """Write the states of the texts that the root's own lower layers compute."""
        assert part.lower.full is not None
        mask = self._mask[torch.tensor(part.full_context, device=self._mask.device)]
        tokens = int(mask.sum(1).max())
        mask = mask[:, :tokens]
        ids, types = (
            self._pad([rows[at] for at in part.full_context], tokens)
            for rows in (self._texts.ids, self._texts.types)
        )
        states = part.lower.full(ids, mask, types).float()
        starts = torch.tensor(part.full_context, device=mask.device)[:, None] * self._texts.max_length
        self._write((starts + torch.arange(tokens, device=mask.device))[mask], states[mask])

    def _write(self, positions: Tensor, states: Tensor) -> None:
        """Write states [N, d] to positions [N] int64 of the flattened batch [B * T]."""
        if self.states is None:
            self.states = states.new_zeros(*self._mask.shape, states.shape[1], dtype=self._dtype)
        self.states.view(-1, states.shape[1])[positions] = states.to(self._dtype)

    def _pad(self, rows: Sequence[Ids], tokens: int) -> Tensor:
        padded = np.zeros((len(rows), tokens), dtype=np.int64)
        for number, row in enumerate(rows):
            padded[number, : len(row)] = row
        return torch.from_numpy(padded).to(self._mask.device)


def _source_vectors(part: LookupPart, layout: PackedLayout, composition: Composition) -> Tensor:
    """`source_vectors` of the table rows and of the fragments that are computed."""
    lower, rows = part.lower, part.rows
    copied = rows.rows.to(lower.device, non_blocking=True)
    resident = [
        cached.rows.index_select(0, torch.from_numpy(cached.slots).to(lower.device))
        for cached in rows.resident
    ]
    if not resident and not len(part.computed):
        return source_vectors(copied, layout, composition)
    table = copied[: rows.copied]
    if resident:
        table = concatenate([table, *resident])
    if not len(part.computed):
        return source_vectors(table, layout, composition)
    assert lower.local is not None
    fragments = torch.from_numpy(part.computed).to(lower.device)
    computed = [lower.local(batch) for batch in torch.split(fragments, FRAGMENT_BATCH)]
    return source_vectors(torch.cat([table.float(), *computed]), layout, composition)

"""Computes hidden states at the cut: from table rows, computed fragments, or the full lower layers.

The serving engine and the evaluation of a model both use it, so that they see the same states.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.hplm.compose import Composition, PackedLayout, compose_packed, concatenate, source_vectors
from inference.hplm.encoder import FullLower
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
from inference.hplm.sequences import PackedSequences

FRAGMENT_BATCH = 2048
"""Fragments that are computed at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class LowerLayersOutput:
    """Hidden states of B packed texts at the cut, and how they were made.

    states [N, d] are on the device, sequences say where each text lies. counts, missed (fragments [M, n]
    int64 that no table holds) and token_levels (see `LookupPart`; None if not requested) are per text.
    """

    states: Tensor
    sequences: PackedSequences
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
    texts = result.texts
    buffer = _StateBuffer(PackedSequences.of(texts.ids), dtype)
    for part in result.parts:
        if part.layout:
            buffer.write(part.looked_up, _composed_states(part, part.layout))
        if part.full_context:
            buffer.write(part.full_context, _full_context_states(texts, part))
    assert buffer.states is not None
    counts = {at: count for part in result.parts for at, count in part.counts.items()}
    missed = {at: lacking for part in result.parts for at, lacking in part.missed.items()}
    token_levels = {at: levels for part in result.parts for at, levels in part.token_levels.items()}
    every = range(len(texts.ids))
    return LowerLayersOutput(
        buffer.states,
        buffer.sequences,
        [counts[at] for at in every],
        [missed[at] for at in every],
        [token_levels.get(at) for at in every],
    )


class _StateBuffer:
    """The states [N, d] of a packed batch, written part by part."""

    def __init__(self, sequences: PackedSequences, dtype: torch.dtype) -> None:
        self.states: Tensor | None = None
        self.sequences, self._dtype = sequences, dtype

    def write(self, texts: list[int], states: Tensor) -> None:
        """Write the states [T, d] of these texts, which follow one another."""
        states = states.to(self._dtype)
        if len(texts) == len(self.sequences.lengths):
            self.states = states
            return
        if self.states is None:
            self.states = states.new_empty(self.sequences.tokens, states.shape[1])
        positions = torch.from_numpy(self.sequences.tokens_of(texts)).to(states.device)
        self.states.index_copy_(0, positions, states)


def _composed_states(part: LookupPart, layout: PackedLayout) -> Tensor:
    """The states of the texts that are composed from fragments."""
    lower = part.lower
    composition = lower.composition or lower.chain.composition.to(lower.device)
    return compose_packed(_source_vectors(part, layout, composition), layout, composition)


def _full_context_states(texts: TextBatch, part: LookupPart) -> Tensor:
    """The states of the texts that the root's own lower layers compute."""
    assert part.lower.full is not None
    ids, types = ([rows[at] for at in part.full_context] for rows in (texts.ids, texts.types))
    return full_states(part.lower.full, ids, types)


def full_states(full: FullLower, ids: Sequence[Ids], types: Sequence[Ids]) -> Tensor:
    """States [N, d] at the cut of texts, each [T] int64, computed with full context."""
    device = full.word_embeddings.device
    packed_ids, packed_types = (torch.from_numpy(np.concatenate(kind)).to(device) for kind in (ids, types))
    states: Tensor = full(packed_ids, PackedSequences.of(ids), packed_types)
    return states


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

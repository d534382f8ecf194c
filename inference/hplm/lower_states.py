"""From token ids to the states at the cut, whatever a PLOT lacks: looked up, computed by fragment, or whole.

The serving engine and the evaluation of an hPLM both come through here, so that they see the same states.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.hplm.compose import Composition, PackedLayout, compose_packed, source_vectors
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


@dataclass(frozen=True, slots=True, eq=False)
class LowerStates:
    """states [N, d] on the device, of packed texts; per text its counts, the fragments [M, n] that its chain
    does not hold, and what each token was given (see `LookupPart`) where that was asked for."""

    states: Tensor
    sequences: PackedSequences
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
    texts = sought.texts
    buffer = _StateBuffer(PackedSequences.of(texts.ids), dtype)
    for part in sought.parts:
        if part.layout:
            buffer.put(part.looked_up, _composed(part, part.layout))
        if part.whole:
            buffer.put(part.whole, _whole(texts, part))
    assert buffer.states is not None
    counts = {at: count for part in sought.parts for at, count in part.counts.items()}
    missed = {at: lacking for part in sought.parts for at, lacking in part.missed.items()}
    given = {at: levels for part in sought.parts for at, levels in part.given.items()}
    every = range(len(texts.ids))
    return LowerStates(
        buffer.states,
        buffer.sequences,
        [counts[at] for at in every],
        [missed[at] for at in every],
        [given.get(at) for at in every],
    )


class _StateBuffer:
    """The states of a packed batch while they are put together, one lower half after the other."""

    def __init__(self, sequences: PackedSequences, dtype: torch.dtype) -> None:
        self.states: Tensor | None = None
        self.sequences, self._dtype = sequences, dtype

    def put(self, texts: list[int], states: Tensor) -> None:
        """The states of these texts, one after the other."""
        states = states.to(self._dtype)
        if len(texts) == len(self.sequences.lengths):
            self.states = states
            return
        if self.states is None:
            self.states = states.new_empty(self.sequences.tokens, states.shape[1])
        places = torch.from_numpy(self.sequences.tokens_of(texts)).to(states.device)
        self.states.index_copy_(0, places, states)


def _composed(part: LookupPart, layout: PackedLayout) -> Tensor:
    """The states of a part's texts from the contributions of their fragments."""
    half = part.half
    parts = half.composition or half.chain.composition.to(half.device)
    return compose_packed(_contributions(part, layout, parts), layout, parts)


def _whole(texts: TextBatch, part: LookupPart) -> Tensor:
    """The states of a part's texts through the root's own lower layers."""
    assert part.half.full is not None
    ids, types = ([kind[at] for at in part.whole] for kind in (texts.ids, texts.types))
    return full_states(part.half.full, ids, types)


def full_states(full: FullLower, ids: Sequence[Ids], types: Sequence[Ids]) -> Tensor:
    """States [N, d] at the cut of packed texts (each [T_b] int64), computed with full context."""
    device = full.word_embeddings.device
    packed_ids, packed_types = (torch.from_numpy(np.concatenate(kind)).to(device) for kind in (ids, types))
    states: Tensor = full(packed_ids, PackedSequences.of(ids), packed_types)
    return states


def _contributions(part: LookupPart, layout: PackedLayout, parts: Composition) -> Tensor:
    """`source_vectors` of everything the tables and the local lower layers say."""
    half, rows = part.half, part.rows
    copied = rows.rows.to(half.device, non_blocking=True)
    resident = [
        some.rows.index_select(0, torch.from_numpy(some.slots).to(half.device)) for some in rows.resident
    ]
    if not resident and not len(part.computed):
        return source_vectors(copied, layout, parts)
    looked_up = copied[: rows.copied]
    # Not by `cat` where there is one: under autocast it refuses the table's float16 on a CPU.
    table = torch.cat([looked_up, *resident]) if resident else looked_up
    if not len(part.computed):
        return source_vectors(table, layout, parts)
    assert half.local is not None
    wanted = torch.from_numpy(part.computed).to(half.device)
    computed = [half.local(some) for some in torch.split(wanted, FRAGMENT_BATCH)]
    return source_vectors(torch.cat([table.float(), *computed]), layout, parts)

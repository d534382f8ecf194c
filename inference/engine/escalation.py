"""Which rows go on to the level FULL, and what the upper layers then compute of them."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.cascade.confidence import confidence
from inference.cascade.dispatcher import Coverage, Level
from inference.cascade.pruning import kept_tokens
from inference.engine.rows import Row
from inference.hplm.attention import QueryKey, attention_received
from inference.hplm.sequences import PackedSequences

Kept = NDArray[np.bool_] | None
"""The tokens [T] of a row that the upper layers compute; None: all."""


def escalated_rows(
    rows: Sequence[Row],
    logits: Sequence[NDArray[np.float32]],
    coverage: Sequence[Coverage],
    sequences: PackedSequences,
    queries_keys: Sequence[QueryKey],
    heads: int,
) -> Mapping[int, Kept]:
    """The rows that their dispatchers send on, by their place, and what is kept of each.

    queries_keys: of each upper layer, [N, d], if any row may be pruned. heads: of attention.
    """
    return {
        at: _kept(row, [(query[part], key[part]) for query, key in queries_keys], heads)
        for at, (row, part) in enumerate(zip(rows, sequences.slices(), strict=True))
        if _escalates(row, logits[at], coverage[at])
    }


def kept_states(
    rows: Sequence[Row], states: Tensor, sequences: PackedSequences
) -> tuple[Tensor, PackedSequences]:
    """The states [M, d] of those [N, d] at the cut that the upper layers compute, and how they lie."""
    if all(row.kept is None for row in rows):
        return states, sequences
    places, kept = sequences.select([row.kept for row in rows])
    return states.index_select(0, torch.from_numpy(places).to(states.device)), kept


def _escalates(row: Row, logits: NDArray[np.float32], coverage: Coverage) -> bool:
    """Whether the row's dispatcher sends it on, by what it was answered from the tables."""
    own = row.dispatcher
    if own is None or row.level is Level.FULL or not np.isfinite(logits).all():
        return False
    sure = confidence(own.kind, logits, own.temperature, own.threshold)
    return own.escalates(own.certainty(sure, coverage), row.text_hash)


def _kept(row: Row, queries_keys: Sequence[QueryKey], heads: int) -> Kept:
    if row.words is None or row.dispatcher is None:
        return None
    importance = attention_received(queries_keys, heads).cpu().numpy()
    kept = kept_tokens(importance, row.words, row.dispatcher.pruning)
    return None if kept.all() else kept

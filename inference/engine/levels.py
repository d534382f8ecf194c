"""The levels of rows: their states at the cut by lookup (paper sections 3.3.1, 6.1) or in full, and which
rows go on to the level FULL."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from inference.cascade.confidence import confidence
from inference.cascade.dispatcher import Coverage, Level
from inference.cascade.pruning import kept_tokens
from inference.engine.rows import Row
from inference.hplm.attention import QueryKey, attention_received
from inference.hplm.encoder import UpperLayers
from inference.hplm.heads import read_back
from inference.hplm.packed_attention import add_layout
from inference.hplm.plot_lookup import LookupResult, LowerLayers, lookup
from inference.hplm.sequences import PackedSequences
from inference.hplm.upload import Upload, Uploaded


class LowerLayersSource(Protocol):
    """What the engine is given to look up and compute with."""

    def for_chain(self, chain: str, *, full: bool) -> LowerLayers:
        """The lower half behind a chain; with `full` also the layers that compute it, which are loaded where
        they are not. KeyError for an unknown chain, HplmError where they cannot be had."""


def retrieval(rows: Sequence[Row], lower_layers: LowerLayersSource) -> Callable[[], LookupResult]:
    """A function that looks up the rows' fragments, once per chain. The lower halves are chosen now, in the
    thread that knows what is served; any thread may call the function. It raises what choosing raised."""
    full = {row.chain for row in rows if row.level is Level.FULL}
    try:
        found = {row.chain: lower_layers.for_chain(row.chain, full=row.chain in full) for row in rows}
    except Exception as error:  # noqa: BLE001 - of one row's chain: the batch is to fail, not the caller
        failure = error

        def fail() -> LookupResult:
            raise failure

        return fail
    ids, types = [row.ids for row in rows], [row.types for row in rows]
    own, levels = [found[row.chain] for row in rows], [row.level for row in rows]
    explain = [row.explain for row in rows]
    return lambda: lookup(ids, own, levels, types, explain)


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
    parts = [*sequences.slices()]
    going_on = [at for at, row in enumerate(rows) if _escalates(row, logits[at], coverage[at])]
    pruned = [at for at in going_on if rows[at].words is not None]
    received = [
        attention_received([(query[parts[at]], key[parts[at]]) for query, key in queries_keys], heads)
        for at in pruned
    ]
    importance = dict(zip(pruned, read_back(received), strict=True))
    return {at: _kept(rows[at], importance.get(at)) for at in going_on}


def upper_tokens(
    rows: Sequence[Row], sequences: PackedSequences, upload: Upload, upper: UpperLayers
) -> tuple[Uploaded | None, PackedSequences]:
    """Which tokens [M] of those at the cut the upper layers compute (None: all), and how they lie. Their
    indices reach the device with the upload."""
    places: Uploaded | None = None
    if any(row.kept is not None for row in rows):
        kept, sequences = sequences.select([row.kept for row in rows])
        places = upload.add(kept)
    add_layout(sequences, upload, upper.dtype, upper.head_size)
    return places, sequences


def _escalates(row: Row, logits: NDArray[np.float32], coverage: Coverage) -> bool:
    """Whether the row's dispatcher sends it on, by what it was answered from the tables."""
    own = row.dispatcher
    if own is None or row.level is Level.FULL or not np.isfinite(logits).all():
        return False
    sure = confidence(own.kind, logits, own.temperature, own.threshold)
    return own.escalates(own.certainty(sure, coverage), row.text_hash)


def _kept(row: Row, importance: NDArray[np.float32] | None) -> Kept:
    if importance is None or row.words is None or row.dispatcher is None:
        return None
    kept = kept_tokens(importance, row.words, row.dispatcher.pruning)
    return None if kept.all() else kept

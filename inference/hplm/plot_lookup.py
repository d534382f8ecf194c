"""Looks up the fragments of a batch in PLOTs, shorter ones for what they lack. Runs on the CPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.cascade.dispatcher import Coverage, Level
from inference.errors import HplmError
from inference.hplm.compose import Composition, PackedLayout, bias_rows, pack_layout
from inference.hplm.encoder import FullLower
from inference.hplm.fragments import extract_all
from inference.hplm.plot import PlotChain
from inference.hplm.row_cache import (
    DeviceRows,
    GatheredRows,
    RowsToGather,
    SearchResult,
    gather_all,
    rows_to_gather,
)

Ids = NDArray[np.int64]
TokenLevels = NDArray[np.uint8]
COMPUTED: Final = 3
"""What a token of a text that was computed in full is said to have, beside plot's HIT_*."""


@dataclass(frozen=True, slots=True, eq=False)
class LowerLayers:
    """What stands for the lower layers of a text.

    chain: the lookup tables, None of a root without any: every text is computed. full: the lower layers with
    full context, None where no text is computed. composition: that of the chain, on the device (default: it
    is copied). row_caches: for each table of the chain the rows on the device; empty for none.
    """

    chain: PlotChain | None
    full: FullLower | None = None
    composition: Composition | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    row_caches: Sequence[DeviceRows] = ()

    @property
    def on_device(self) -> Composition:
        """The composition on the device. Raises what `tables` does."""
        return self.composition or self.tables.composition.to(self.device)

    @property
    def tables(self) -> PlotChain:
        """The lookup tables. Raises HplmError(inference_failed) if there are none."""
        if self.chain is None:
            raise HplmError("inference_failed", "the root has no lookup tables: texts are computed in full")
        return self.chain


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch:
    """Token ids and types [T] int64 of each text, its level, and whether its token levels are requested."""

    ids: tuple[Ids, ...]
    types: tuple[Ids, ...]
    levels: tuple[Level, ...]
    explain: tuple[bool, ...]

    @property
    def max_length(self) -> int:
        """Tokens of the longest text."""
        return max(map(len, self.ids))


NOTHING_FOUND: Final = Coverage()
"""Of a text whose fragments were not looked up."""


@dataclass(frozen=True, slots=True, eq=False)
class LookupPart:
    """The texts of a batch that share lower layers, after the lookup.

    looked_up, full: batch indices of the texts of either level. rows: of the U distinct fragments, or shorter
    parts, that the tables gave. layout: of the looked-up texts, None if there are none. levels [N] int64: a
    HIT_* for each of their tokens. coverage, token_levels: by batch index, of the looked-up texts.
    token_levels [T] uint8, if requested.
    """

    lower: LowerLayers
    looked_up: list[int]
    full: list[int]
    rows: GatheredRows | None
    layout: PackedLayout | None
    levels: Ids
    coverage: Mapping[int, Coverage]
    token_levels: Mapping[int, TokenLevels]


@dataclass(frozen=True, slots=True, eq=False)
class LookupResult:
    """The result of `lookup`: one part for each distinct `LowerLayers` of the batch. rows: the buffer
    [R, n, d] in which the copied rows of all parts lie, None if nothing was looked up."""

    texts: TextBatch
    parts: list[LookupPart]
    rows: Tensor | None = None

    @property
    def device(self) -> torch.device:
        """That of the lower layers."""
        return self.parts[0].lower.device


def lookup(
    ids: Sequence[Ids],
    lowers: Sequence[LowerLayers],
    levels: Sequence[Level],
    types: Sequence[Ids] | None = None,
    explain: Sequence[bool] | None = None,
) -> LookupResult:
    """The first half of `compute_lower_states`, with the same arguments. It uses no device, so it may run in
    a thread while another batch is computed."""
    batch = TextBatch(
        tuple(ids),
        tuple(types or [np.zeros_like(row) for row in ids]),
        tuple(levels),
        tuple(explain or [False] * len(ids)),
    )
    searches = [
        _Search(batch, lower, [at for at, own in enumerate(lowers) if own is lower])
        for lower in dict.fromkeys(lowers)
    ]
    wanted = [search.wanted for search in searches if search.wanted is not None]
    if not wanted:
        return LookupResult(batch, [search.part(None) for search in searches])
    buffer, gathered = gather_all(wanted, pinned=searches[0].lower.device.type == "cuda")
    rows = iter(gathered)
    parts = [search.part(None if search.wanted is None else next(rows)) for search in searches]
    return LookupResult(batch, parts, buffer)


class _Search:
    """Where the fragments of those of these texts lie whose level asks for looking up."""

    def __init__(self, batch: TextBatch, lower: LowerLayers, texts: list[int]) -> None:
        self.lower, self._batch = lower, batch
        self._full = [at for at in texts if batch.levels[at] is Level.FULL]
        self._looked_up = [at for at in texts if batch.levels[at] is not Level.FULL]
        self.wanted: RowsToGather | None = None
        if not self._looked_up:
            return
        own, chain = [batch.ids[at] for at in self._looked_up], lower.tables
        self._found = chain.search(extract_all(own, chain.missing_id, chain.n))
        # Cached rows are concatenated on the device, and the biases with them.
        spare = 0 if lower.row_caches else bias_rows(batch.max_length, chain.composition.types, chain.n)
        self.wanted = rows_to_gather(chain.tables, self._found, lower.row_caches, spare=spare)

    def part(self, rows: GatheredRows | None) -> LookupPart:
        """The texts, with the rows that were gathered for them."""
        if rows is None:
            return LookupPart(self.lower, [], self._full, None, None, np.empty(0, dtype=np.int64), {}, {})
        return _looked_up(self._batch, self.lower, self._looked_up, self._full, self._found, rows)


def _looked_up(
    batch: TextBatch,
    lower: LowerLayers,
    looked_up: list[int],
    full: list[int],
    found: SearchResult,
    rows: GatheredRows,
) -> LookupPart:
    own = [batch.ids[at] for at in looked_up]
    hits = found.level[found.inverse].astype(np.int64)
    text_of = np.repeat(np.arange(len(own)), [len(row) for row in own])
    counts = np.bincount(3 * text_of + hits, minlength=3 * len(own)).reshape(-1, 3)
    return LookupPart(
        lower=lower,
        looked_up=looked_up,
        full=full,
        rows=rows,
        layout=_layout(batch, looked_up, lower, rows.position[found.inverse], len(rows)),
        levels=hits,
        coverage={at: Coverage(*counts[k].tolist()) for k, at in enumerate(looked_up)},
        token_levels={
            at: hits[text_of == k].astype(np.uint8) for k, at in enumerate(looked_up) if batch.explain[at]
        },
    )


def _layout(
    batch: TextBatch, looked_up: list[int], lower: LowerLayers, row_index: Ids, rows: int
) -> PackedLayout:
    lengths = np.array([len(batch.ids[at]) for at in looked_up])
    types = np.concatenate([batch.types[at] for at in looked_up])
    type_count = lower.tables.composition.types
    return pack_layout(row_index, lengths, types, n=lower.tables.n, rows=rows, type_count=type_count)

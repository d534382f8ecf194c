"""Looks up the fragments of a batch in PLOTs, and chooses how missing ones are filled. Runs on the CPU."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from inference.hplm.compose import Composition, PackedLayout, bias_rows, pack_layout
from inference.hplm.encoder import FullLower
from inference.hplm.fragments import extract_all
from inference.hplm.local_lower import LocalLower
from inference.hplm.miss_plan import CostModel, FillMethod, LevelErrors, choose_methods
from inference.hplm.miss_policy import MissHandling
from inference.hplm.plot import HIT_EXACT, PlotChain
from inference.hplm.row_cache import DeviceRows, GatheredRows, gather_rows

Ids = NDArray[np.int64]
Levels = NDArray[np.uint8]
COMPUTED: Final = 3
"""The level of a token whose fragment was computed, beside plot's HIT_*."""


@dataclass(frozen=True, slots=True, eq=False)
class LowerLayers:
    """Everything that can replace the lower layers for a text.

    chain: the lookup tables. local: the local lower layers of the nearest version, which compute a fragment.
    full: the root's own lower layers. Without local and full nothing is computed. composition: that of the
    chain, on the device (default: it is copied). costs: default to nominal ones. row_caches: for each table
    of the chain the rows on the device; empty for none.
    """

    chain: PlotChain
    local: LocalLower | None = None
    full: FullLower | None = None
    errors: LevelErrors = field(default_factory=LevelErrors)
    costs: CostModel | None = None
    composition: Composition | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    row_caches: Sequence[DeviceRows] = ()

    @property
    def cost_model(self) -> CostModel:
        """The measured costs, or the nominal ones."""
        return self.costs or CostModel.nominal(self.chain.n)


@dataclass(frozen=True, slots=True)
class HitCounts:
    """How many fragments of a text were found themselves, by a shorter part, by their unigram, or computed.

    full_context: the root's own lower layers computed the text; then all counts are 0.
    """

    exact: int = 0
    shorter: int = 0
    unigram: int = 0
    computed: int = 0
    full_context: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch:
    """Token ids and types [T] int64 of each text, its miss handling, and whether its token levels are
    requested."""

    ids: tuple[Ids, ...]
    types: tuple[Ids, ...]
    misses: tuple[MissHandling, ...]
    explain: tuple[bool, ...]

    @property
    def max_length(self) -> int:
        """Tokens of the longest text."""
        return max(map(len, self.ids))


@dataclass(frozen=True, slots=True, eq=False)
class LookupPart:
    """The texts of a batch that share lower layers, after the lookup.

    looked_up, full_context: batch indices of the texts that are composed from fragments, and of those that
    the root's own lower layers compute. rows: of the U distinct fragments that come from the tables. computed
    [C, n] int64: the distinct fragments to be computed, numbered from U. layout: of the looked-up texts, None
    if there are none. counts, missed, token_levels: by batch index. missed [M, n] int64: fragments that no
    table holds. token_levels [T] uint8, if requested: a HIT_* or COMPUTED for each token.
    """

    lower: LowerLayers
    looked_up: list[int]
    full_context: list[int]
    rows: GatheredRows
    computed: Ids
    layout: PackedLayout | None
    counts: dict[int, HitCounts]
    missed: dict[int, Ids]
    token_levels: dict[int, Levels]


@dataclass(frozen=True, slots=True, eq=False)
class LookupResult:
    """The result of `lookup`: one part for each distinct `LowerLayers` of the batch."""

    texts: TextBatch
    parts: list[LookupPart]


def lookup(
    ids: Sequence[Ids],
    lowers: Sequence[LowerLayers],
    misses: Sequence[MissHandling],
    types: Sequence[Ids] | None = None,
    explain: Sequence[bool] | None = None,
) -> LookupResult:
    """The first half of `compute_lower_states`, with the same arguments. It uses no device, so it may run in
    a thread while another batch is computed."""
    batch = TextBatch(
        tuple(ids),
        tuple(types or [np.zeros_like(row) for row in ids]),
        tuple(misses),
        tuple(explain or [False] * len(ids)),
    )
    parts = [
        _lookup_part(batch, lower, [at for at, own in enumerate(lowers) if own is lower])
        for lower in dict.fromkeys(lowers)
    ]
    return LookupResult(batch, parts)


def _lookup_part(batch: TextBatch, lower: LowerLayers, texts: list[int]) -> LookupPart:
    """Look up the fragments of these texts, and choose how the missing ones are filled."""
    own = [batch.ids[at] for at in texts]
    fragments = extract_all(own, lower.chain.missing_id, lower.chain.n)
    found = lower.chain.search(fragments)
    level = found.level[found.inverse]
    text_of = np.repeat(np.arange(len(texts)), [len(row) for row in own])
    levels = np.bincount(3 * text_of + level, minlength=3 * len(texts)).reshape(-1, 3)
    methods = choose_methods(
        levels,
        [batch.misses[at] for at in texts],
        lower.errors,
        lower.cost_model,
        has_local=lower.local is not None,
        has_full=lower.full is not None,
    )
    missed, full_context = level != HIT_EXACT, methods == FillMethod.FULL_CONTEXT
    to_compute = missed & (methods == FillMethod.FRAGMENTS)[text_of]
    from_tables = ~(full_context[text_of] | to_compute)
    found = found.only(from_tables)
    # Cached rows are concatenated on the device, and the biases with them.
    spare = (
        0 if lower.row_caches else bias_rows(batch.max_length, lower.chain.composition.types, lower.chain.n)
    )
    rows = gather_rows(
        lower.chain.tables, found, lower.row_caches, pinned=lower.device.type == "cuda", spare=spare
    )
    row_index = np.zeros(len(fragments), dtype=np.int64)
    row_index[from_tables] = rows.position[found.inverse[from_tables]]
    computed, row_index[to_compute] = _distinct(fragments[to_compute], first=len(rows))
    missed_fragments = np.split(fragments[missed], np.cumsum(levels[:, 1:].sum(1))[:-1])
    looked_up = _select(texts, ~full_context)
    return LookupPart(
        lower=lower,
        looked_up=looked_up,
        full_context=_select(texts, full_context),
        rows=rows,
        computed=computed,
        layout=_layout(batch, looked_up, lower, row_index[~full_context[text_of]], len(rows) + len(computed)),
        counts={at: _counts(levels[k], FillMethod(methods[k])) for k, at in enumerate(texts)},
        missed=dict(zip(texts, missed_fragments, strict=True)),
        token_levels={
            at: _token_levels(level[text_of == k], FillMethod(methods[k]))
            for k, at in enumerate(texts)
            if batch.explain[at]
        },
    )


def _distinct(fragments: Ids, *, first: int) -> tuple[Ids, Ids]:
    """The distinct ones [C, n] of fragments [N, n], and the number [N] of each, from ``first`` on."""
    if not len(fragments):
        return fragments, np.zeros(0, dtype=np.int64)
    unique, inverse = np.unique(fragments, axis=0, return_inverse=True)
    return unique, first + inverse.reshape(-1)


def _layout(
    batch: TextBatch, looked_up: list[int], lower: LowerLayers, row_index: Ids, rows: int
) -> PackedLayout | None:
    if not looked_up:
        return None
    lengths = np.array([len(batch.ids[at]) for at in looked_up])
    types = np.concatenate([batch.types[at] for at in looked_up])
    type_count = lower.chain.composition.types
    return pack_layout(row_index, lengths, types, n=lower.chain.n, rows=rows, type_count=type_count)


def _select(texts: list[int], which: NDArray[np.bool_]) -> list[int]:
    return [text for text, chosen in zip(texts, which.tolist(), strict=True) if chosen]


def _token_levels(levels: Levels, method: FillMethod) -> Levels:
    """The levels of a text's tokens, COMPUTED where the method computes."""
    missed = (levels != HIT_EXACT) & (method == FillMethod.FRAGMENTS)
    return np.where(missed | (method == FillMethod.FULL_CONTEXT), COMPUTED, levels).astype(np.uint8)


def _counts(levels: Ids, method: FillMethod) -> HitCounts:
    exact, shorter, unigram = (int(count) for count in levels)
    if method == FillMethod.FULL_CONTEXT:
        return HitCounts(full_context=True)
    if method == FillMethod.FRAGMENTS:
        return HitCounts(exact=exact, computed=shorter + unigram)
    return HitCounts(exact, shorter, unigram)

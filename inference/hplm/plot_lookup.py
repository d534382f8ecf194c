"""Looks up the fragments of a batch in PLOTs, and decides how missing ones are filled. Host only."""

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
from inference.hplm.plot import HIT_FULL, PlotChain
from inference.hplm.row_cache import GatheredRows, Hot, SearchResult, gather_rows


@dataclass(frozen=True, slots=True, eq=False)
class LowerLayers:
    """All that can stand in for the lower layers of a text: a chain of tables, the local lower layers of its
    nearest version, the root's own. Without the last two nothing can be computed and tables alone answer.

    ``composition`` is the chain's where it lies on the device already; ``costs`` defaults to nominal ones;
    ``hot`` has what is on the device of each of the chain's tables, or is empty.
    """

    chain: PlotChain
    local: LocalLower | None = None
    full: FullLower | None = None
    errors: LevelErrors = field(default_factory=LevelErrors)
    costs: CostModel | None = None
    composition: Composition | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    hot: Sequence[Hot] = ()

    @property
    def cost_model(self) -> CostModel:
        """What was measured, or else that a fragment costs its tokens."""
        return self.costs or CostModel.nominal(self.chain.n)


Ids = NDArray[np.int64]
Levels = NDArray[np.uint8]
COMPUTED: Final = 3
"""What a token was given where no table was asked or none was of use; otherwise it is one of plot's HIT_*."""


@dataclass(frozen=True, slots=True)
class HitCounts:
    """How a text's fragments were answered: by themselves, by parts, by uni-grams, computed. All are 0 where
    the text was computed whole."""

    full: int = 0
    part: int = 0
    single: int = 0
    computed: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch:
    """The texts of a batch as `fill` takes them; explain: of which it is to be told what each token was
    given."""

    ids: tuple[Ids, ...]
    types: tuple[Ids, ...]
    misses: tuple[MissHandling, ...]
    explain: tuple[bool, ...]

    @property
    def longest(self) -> int:
        """Tokens of the longest text."""
        return max(map(len, self.ids))


@dataclass(frozen=True, slots=True, eq=False)
class LookupPart:
    """The texts of a batch that share one lower half, as far as tables answer them.

    looked_up, whole: numbers of the texts in the batch. rows: of the U different fragments that the tables
    hold; computed [C, n]: the different fragments to be computed, whose rows come behind those; layout: of
    the looked-up texts, None where there are none. counts, missed: of every text of the part. given [T]: of
    the texts to be explained, what stands for the fragment around each token (a HIT_*, or COMPUTED).
    """

    half: LowerLayers
    looked_up: list[int]
    whole: list[int]
    rows: GatheredRows
    computed: Ids
    layout: PackedLayout | None
    counts: dict[int, HitCounts]
    missed: dict[int, Ids]
    given: dict[int, Levels]


@dataclass(frozen=True, slots=True, eq=False)
class LookupResult:
    """A batch of which the tables have been asked."""

    texts: TextBatch
    parts: list[LookupPart]


def lookup(
    ids: Sequence[Ids],
    halves: Sequence[LowerLayers],
    misses: Sequence[MissHandling],
    types: Sequence[Ids] | None = None,
    explain: Sequence[bool] | None = None,
) -> LookupResult:
    """The first part of `misses.fill`; it may run in a thread while another batch is computed."""
    batch = TextBatch(
        tuple(ids),
        tuple(types or [np.zeros_like(row) for row in ids]),
        tuple(misses),
        tuple(explain or [False] * len(ids)),
    )
    parts = [
        _lookup_part(batch, half, [at for at, own in enumerate(halves) if own is half])
        for half in dict.fromkeys(halves)
    ]
    return LookupResult(batch, parts)


def _lookup_part(batch: TextBatch, half: LowerLayers, texts: list[int]) -> LookupPart:
    """Ask the tables for the fragments of these texts, and decide what is done about those they lack."""
    own = [batch.ids[at] for at in texts]
    fragments = extract_all(own, half.chain.missing_id, half.chain.n)
    found = half.chain.search(fragments)
    level = found.level[found.inverse]
    of_text = np.repeat(np.arange(len(texts)), [len(part) for part in own])
    levels = np.bincount(3 * of_text + level, minlength=3 * len(texts)).reshape(-1, 3)
    ways = choose_methods(
        levels,
        [batch.misses[at] for at in texts],
        half.errors,
        half.cost_model,
        has_local=half.local is not None,
        has_full=half.full is not None,
    )
    absent, whole = level != HIT_FULL, ways == FillMethod.WHOLE
    # Rows on the device are put together with the others there, and the biases with them.
    spare = 0 if half.hot else bias_rows(batch.longest, half.chain.composition.types, half.chain.n)
    rows = gather_rows(half.chain.tables, found, half.hot, pinned=half.device.type == "cuda", spare=spare)
    place, computed = _computed_rows(fragments, found, rows, absent & (ways == FillMethod.FRAGMENTS)[of_text])
    lacking = np.split(fragments[absent], np.cumsum(levels[:, 1:].sum(1))[:-1])
    looked_up = _select(texts, ~whole)
    return LookupPart(
        half=half,
        looked_up=looked_up,
        whole=_select(texts, whole),
        rows=rows,
        computed=computed,
        layout=_layout(batch, looked_up, half, place[~whole[of_text]], len(rows) + len(computed)),
        counts={at: _counts(levels[k], FillMethod(ways[k])) for k, at in enumerate(texts)},
        missed=dict(zip(texts, lacking, strict=True)),
        given={
            at: _token_levels(level[of_text == k], FillMethod(ways[k]))
            for k, at in enumerate(texts)
            if batch.explain[at]
        },
    )


def _computed_rows(
    fragments: Ids, found: SearchResult, rows: GatheredRows, wanted: NDArray[np.bool_]
) -> tuple[Ids, Ids]:
    """The row of each fragment [N], and the different fragments [C, n] among the `wanted`, whose rows come
    behind those that were found."""
    place = rows.place[found.inverse]
    if not wanted.any():
        return place, fragments[:0]
    unique, inverse = np.unique(fragments[wanted], axis=0, return_inverse=True)
    place[wanted] = len(rows) + inverse.reshape(-1)
    return place, unique


def _layout(
    batch: TextBatch, looked_up: list[int], half: LowerLayers, place: Ids, rows: int
) -> PackedLayout | None:
    if not looked_up:
        return None
    lengths = np.array([len(batch.ids[at]) for at in looked_up])
    types = np.concatenate([batch.types[at] for at in looked_up])
    kinds = half.chain.composition.types
    return pack_layout(place, lengths, types, n=half.chain.n, rows=rows, kinds=kinds)


def _select(texts: list[int], which: NDArray[np.bool_]) -> list[int]:
    return [text for text, chosen in zip(texts, which.tolist(), strict=True) if chosen]


def _token_levels(levels: Levels, way: FillMethod) -> Levels:
    """What each token of a text was given, from what the tables said and what was made of it."""
    computed = (levels != HIT_FULL) & (way == FillMethod.FRAGMENTS) | (way == FillMethod.WHOLE)
    return np.where(computed, COMPUTED, levels).astype(np.uint8)


def _counts(levels: Ids, way: FillMethod) -> HitCounts:
    full, part, single = (int(count) for count in levels)
    if way == FillMethod.WHOLE:
        return HitCounts(whole=True)
    if way == FillMethod.FRAGMENTS:
        return HitCounts(full=full, computed=part + single)
    return HitCounts(full, part, single)

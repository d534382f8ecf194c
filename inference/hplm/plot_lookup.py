"""Asking the tables for the fragments of a batch, and deciding what is done about those they lack: everything
about the lower half of a batch that asks nothing of the device."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inference.hplm.compose_flat import Layout, lay_out, spare_rows
from inference.hplm.fragments import of_sequences
from inference.hplm.lower_half import LowerHalf
from inference.hplm.miss_plan import Way, plan
from inference.hplm.miss_policy import Misses
from inference.hplm.plot import HIT_TRI
from inference.hplm.row_gather import Found, Gathered, gathered

Ids = NDArray[np.int64]
Levels = NDArray[np.uint8]
COMPUTED: Final = 3
"""What a token was given where no table was asked or none was of use; otherwise it is one of plot's HIT_*."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How a text's fragments were answered: by themselves, by parts, by uni-grams, computed. All are 0 where
    the text was computed whole."""

    full: int = 0
    part: int = 0
    single: int = 0
    computed: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """The texts of a batch as `fill` takes them; explain: of which it is to be told what each token was
    given."""

    ids: tuple[Ids, ...]
    types: tuple[Ids, ...]
    misses: tuple[Misses, ...]
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

    half: LowerHalf
    looked_up: list[int]
    whole: list[int]
    rows: Gathered
    computed: Ids
    layout: Layout | None
    counts: dict[int, Counts]
    missed: dict[int, Ids]
    given: dict[int, Levels]


@dataclass(frozen=True, slots=True, eq=False)
class LookupResult:
    """A batch of which the tables have been asked."""

    texts: Texts
    parts: list[LookupPart]


def lookup(
    ids: Sequence[Ids],
    halves: Sequence[LowerHalf],
    misses: Sequence[Misses],
    types: Sequence[Ids] | None = None,
    explain: Sequence[bool] | None = None,
) -> LookupResult:
    """The first part of `misses.fill`; it may run in a thread while another batch is computed."""
    batch = Texts(
        tuple(ids),
        tuple(types or [np.zeros_like(row) for row in ids]),
        tuple(misses),
        tuple(explain or [False] * len(ids)),
    )
    parts = [
        _part(batch, half, [at for at, own in enumerate(halves) if own is half])
        for half in dict.fromkeys(halves)
    ]
    return LookupResult(batch, parts)


def _part(batch: Texts, half: LowerHalf, texts: list[int]) -> LookupPart:
    """Ask the tables for the fragments of these texts, and decide what is done about those they lack."""
    own = [batch.ids[at] for at in texts]
    fragments = of_sequences(own, half.chain.missing_id, half.chain.n)
    found = half.chain.search(fragments)
    level = found.level[found.inverse]
    of_text = np.repeat(np.arange(len(texts)), [len(part) for part in own])
    levels = np.bincount(3 * of_text + level, minlength=3 * len(texts)).reshape(-1, 3)
    ways = plan(
        levels,
        [batch.misses[at] for at in texts],
        half.errors,
        half.cost_model,
        has_local=half.local is not None,
        has_full=half.full is not None,
    )
    absent, whole = level != HIT_TRI, ways == Way.WHOLE
    # Rows on the device are put together with the others there, and the biases with them.
    spare = 0 if half.hot else spare_rows(batch.longest, half.chain.composition.types, half.chain.n)
    rows = gathered(half.chain.tables, found, half.hot, pinned=half.device.type == "cuda", spare=spare)
    place, computed = _places(fragments, found, rows, absent & (ways == Way.FRAGMENTS)[of_text])
    lacking = np.split(fragments[absent], np.cumsum(levels[:, 1:].sum(1))[:-1])
    looked_up = _chosen(texts, ~whole)
    return LookupPart(
        half=half,
        looked_up=looked_up,
        whole=_chosen(texts, whole),
        rows=rows,
        computed=computed,
        layout=_layout(batch, looked_up, half, place[~whole[of_text]], len(rows) + len(computed)),
        counts={at: _counts(levels[k], Way(ways[k])) for k, at in enumerate(texts)},
        missed=dict(zip(texts, lacking, strict=True)),
        given={
            at: _given(level[of_text == k], Way(ways[k])) for k, at in enumerate(texts) if batch.explain[at]
        },
    )


def _places(fragments: Ids, found: Found, rows: Gathered, wanted: NDArray[np.bool_]) -> tuple[Ids, Ids]:
    """The row of each fragment [N], and the different fragments [C, n] among the `wanted`, whose rows come
    behind those that were found."""
    place = rows.place[found.inverse]
    if not wanted.any():
        return place, fragments[:0]
    unique, inverse = np.unique(fragments[wanted], axis=0, return_inverse=True)
    place[wanted] = len(rows) + inverse.reshape(-1)
    return place, unique


def _layout(batch: Texts, looked_up: list[int], half: LowerHalf, place: Ids, rows: int) -> Layout | None:
    if not looked_up:
        return None
    lengths = np.array([len(batch.ids[at]) for at in looked_up])
    types = np.concatenate([batch.types[at] for at in looked_up])
    kinds = half.chain.composition.types
    return lay_out(place, lengths, types, n=half.chain.n, rows=rows, kinds=kinds)


def _chosen(texts: list[int], which: NDArray[np.bool_]) -> list[int]:
    return [text for text, chosen in zip(texts, which.tolist(), strict=True) if chosen]


def _given(levels: Levels, way: Way) -> Levels:
    """What each token of a text was given, from what the tables said and what was made of it."""
    computed = (levels != HIT_TRI) & (way == Way.FRAGMENTS) | (way == Way.WHOLE)
    return np.where(computed, COMPUTED, levels).astype(np.uint8)


def _counts(levels: Ids, way: Way) -> Counts:
    full, part, single = (int(count) for count in levels)
    if way == Way.WHOLE:
        return Counts(whole=True)
    if way == Way.FRAGMENTS:
        return Counts(full=full, computed=part + single)
    return Counts(full, part, single)

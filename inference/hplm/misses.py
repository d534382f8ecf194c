"""From token ids to the states at the cut, whatever a PLOT lacks: looked up, computed by fragment, or whole.

The serving engine and the evaluation of an hPLM both come through here, so that they see the same states.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.hplm.compose import Composition, compose
from inference.hplm.fragments import of_sequence
from inference.hplm.full_lower import FullLower
from inference.hplm.local_lower import LocalLower
from inference.hplm.miss_plan import CostModel, LevelErrors, Way, plan
from inference.hplm.miss_policy import Misses, MissPolicy
from inference.hplm.plot import HIT_TRI, Lookup, PlotChain

__all__ = ["CostModel", "Counts", "Filled", "LevelErrors", "LowerHalf", "MissPolicy", "Misses", "fill"]

Ids = NDArray[np.int64]
FRAGMENTS_AT_ONCE = 2048


@dataclass(frozen=True, slots=True, eq=False)
class LowerHalf:
    """All that can stand in for the lower layers of a text: a chain of tables, the local lower layers of its
    nearest version, the root's own. Without the last two nothing can be computed and tables alone answer.

    ``composition`` is the chain's where it lies on the device already; ``costs`` defaults to nominal ones.
    """

    chain: PlotChain
    local: LocalLower | None = None
    full: FullLower | None = None
    errors: LevelErrors = field(default_factory=LevelErrors)
    costs: CostModel | None = None
    composition: Composition | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def cost_model(self) -> CostModel:
        """What was measured, or else that a fragment costs its tokens."""
        return self.costs or CostModel.nominal(self.chain.n)


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
class Filled:
    """states [B, T, d] on the device, in the widest type of what they were made of, and mask [B, T] bool
    (true: a token is there); per text its counts, and the fragments [M, n] that its chain does not hold."""

    states: Tensor
    mask: Tensor
    counts: list[Counts]
    missed: list[Ids]


@torch.no_grad()
def fill(
    ids: Sequence[Ids],
    halves: Sequence[LowerHalf],
    misses: Sequence[Misses],
    types: Sequence[Ids] | None = None,
) -> Filled:
    """The states at the cut of texts `ids` (each [T_b] int64), each from its own lower half and by its own
    policy; `types` are their token types (default: zeros).

    What is computed is computed once for each different fragment of the batch and lower half. Raises what a
    chain's lookup raises.
    """
    device = halves[0].device
    lengths = torch.tensor([len(row) for row in ids], device=device)
    mask = torch.arange(int(lengths.max()), device=device) < lengths[:, None]
    batch = _Batch(ids, types or [np.zeros_like(row) for row in ids], misses, mask)
    for half in dict.fromkeys(halves):
        batch.add(half, [at for at, own in enumerate(halves) if own is half])
    assert batch.states is not None
    return Filled(batch.states, mask, batch.counts, batch.missed)


class _Batch:
    """The states of a batch while they are put together, one lower half after the other."""

    def __init__(
        self, ids: Sequence[Ids], types: Sequence[Ids], misses: Sequence[Misses], mask: Tensor
    ) -> None:
        self.states: Tensor | None = None
        self.counts = [Counts()] * len(ids)
        self.missed: list[Ids] = [np.empty((0, 0), dtype=np.int64)] * len(ids)
        self._ids, self._types, self._misses, self._mask = ids, types, misses, mask

    def add(self, half: LowerHalf, rows: list[int]) -> None:
        """Fill in the texts `rows`, which share one lower half."""
        own = [of_sequence(self._ids[at], half.chain.missing_id, half.chain.n) for at in rows]
        fragments = np.concatenate(own)
        found = half.chain.lookup(fragments)
        of_row = np.repeat(np.arange(len(rows)), [len(part) for part in own])
        levels = np.bincount(3 * of_row + found.level, minlength=3 * len(rows)).reshape(-1, 3)
        ways = self._plan(half, rows, levels)
        absent, whole = found.level != HIT_TRI, ways == Way.WHOLE
        if not whole.all():
            table, place = _rows_of(half, fragments, found, absent & (ways == Way.FRAGMENTS)[of_row])
            self._compose(half, _chosen(rows, ~whole), table, place[~whole[of_row]])
        if whole.any():
            self._compute(half, _chosen(rows, whole))
        lacking = np.split(fragments[absent], np.cumsum(levels[:, 1:].sum(1))[:-1])
        for number, at in enumerate(rows):
            self.counts[at] = _counts(levels[number], Way(ways[number]))
            self.missed[at] = lacking[number]

    def _plan(self, half: LowerHalf, rows: list[int], levels: Ids) -> NDArray[np.int8]:
        return plan(
            levels,
            [self._misses[at] for at in rows],
            half.errors,
            half.cost_model,
            has_local=half.local is not None,
            has_full=half.full is not None,
        )

    def _compose(self, half: LowerHalf, rows: list[int], table: Tensor, place: Ids) -> None:
        """From contributions `table` [U, n, d] and the place in it of each token of `rows`, one after the
        other."""
        at = torch.tensor(rows, device=self._mask.device)
        mask = self._mask[at]
        index = torch.zeros(mask.shape, dtype=torch.int64, device=mask.device)
        index[mask] = torch.from_numpy(place).to(mask.device)
        parts = half.composition or half.chain.composition.to(mask.device)
        types = self._padded([self._types[row] for row in rows], mask.shape[1])
        self._put(at, compose(table[index], mask.sum(1), parts, types))

    def _compute(self, half: LowerHalf, rows: list[int]) -> None:
        """Texts through the root's own lower layers."""
        assert half.full is not None
        at = torch.tensor(rows, device=self._mask.device)
        mask = self._mask[at]
        tokens = int(mask.sum(1).max())
        ids = self._padded([self._ids[row] for row in rows], tokens)
        types = self._padded([self._types[row] for row in rows], tokens)
        states = half.full(ids, mask[:, :tokens], types).float()
        self._put(at, torch.nn.functional.pad(states, (0, 0, 0, mask.shape[1] - tokens)))

    def _put(self, rows: Tensor, states: Tensor) -> None:
        if self.states is None:
            self.states = states.new_zeros(*self._mask.shape, states.shape[2])
        self.states[rows] = states.to(self.states.dtype)

    def _padded(self, rows: Sequence[Ids], tokens: int) -> Tensor:
        padded = np.zeros((len(rows), tokens), dtype=np.int64)
        for number, row in enumerate(rows):
            padded[number, : len(row)] = row
        return torch.from_numpy(padded).to(self._mask.device)


def _rows_of(half: LowerHalf, fragments: Ids, found: Lookup, wanted: NDArray[np.bool_]) -> tuple[Tensor, Ids]:
    """The contributions [U, n, d] of everything the tables and the local lower layers say, and the place of
    each fragment in it."""
    device = half.device
    table = torch.from_numpy(found.unique).to(device)
    if not wanted.any():
        return table, found.inverse
    assert half.local is not None
    unique, inverse = np.unique(fragments[wanted], axis=0, return_inverse=True)
    computed = [
        half.local(part) for part in torch.split(torch.from_numpy(unique).to(device), FRAGMENTS_AT_ONCE)
    ]
    place = found.inverse.copy()
    place[wanted] = len(table) + inverse.reshape(-1)
    return torch.cat([table.float(), *computed]), place


def _chosen(rows: list[int], which: NDArray[np.bool_]) -> list[int]:
    return [row for row, chosen in zip(rows, which.tolist(), strict=True) if chosen]


def _counts(levels: Ids, way: Way) -> Counts:
    full, part, single = (int(count) for count in levels)
    if way == Way.WHOLE:
        return Counts(whole=True)
    if way == Way.FRAGMENTS:
        return Counts(full=full, computed=part + single)
    return Counts(full, part, single)

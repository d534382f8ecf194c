"""A local lower half without any training: one ridge regression on the hidden states of fragments.

A token's state is the sum of what the fragments around it say of it, each through the map of its level and
slot, and of a bias of its position. All these maps are fitted together, half on complete fragments and half
on a mix of levels as an incomplete table gives it, because what a fall-back row should say depends on what
its neighbours leave unsaid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from workers.training.checkpoints import draws
from workers.training.hidden_states import Teacher
from workers.training.ngrams import Window
from workers.training.precision import Arithmetic
from workers.training.progress import Reporter
from workers.training.ridge import NormalEquations
from workers.training.sequences import Batch, Framed, make_batch
from workers.training.simulated_misses import Patterns

# Rows of one combination of levels gathered before they are multiplied, and of all combinations together.
ROWS_AT_ONCE = 512
MOST_ROWS = 30_000
STAGE = 1

Combination = tuple[int, ...]


@dataclass
class ClosedForm:
    """Fits `local` in place.

    position_features: [max_tokens, p], of which a position's bias is a linear function; so positions that the
    corpus never reached get a sensible bias too. patterns: how the second half of the rows is read.
    """

    local: LocalLower
    teacher: Teacher
    position_features: Tensor
    config: RootConfig
    arithmetic: Arithmetic
    patterns: Patterns
    penalty: float
    seed: int
    _waiting: dict[Combination, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)
    _rows: int = 0

    def __post_init__(self) -> None:
        self._n, self._hidden = self.config.n, self.config.hidden
        self._nothing = fragments.level_count(self._n)
        self._block = torch.tensor(shared_maps(self._n))
        self._maps = (int(self._block.max()) + 1) * self._n * self._hidden
        positions = self.position_features.shape[1]
        self._equations = NormalEquations(self._maps + positions + self.config.type_count - 1, self._hidden)

    @torch.no_grad()
    def fit(self, groups: Sequence[list[Framed]], reporter: Reporter) -> None:
        """One pass over the batches, then one solution."""
        reporter.stage("closed form", len(groups) + 1)
        for done, sequences in enumerate(groups, start=1):
            reporter.check()
            batch, rng = make_batch(sequences, self.config), draws(self.seed, STAGE, done)
            target = self.teacher.at_cut(batch)
            cuts = np.cumsum([len(one) for one in sequences])[:-1]
            parts = np.split(batch.fragments, cuts)
            mixed = [self.patterns.draw(part, rng, self.config.missing_id) for part in parts]
            for read in (batch, batch.reading(np.concatenate(mixed))):
                self._gather(read, target)
                self._multiply(ROWS_AT_ONCE if self._rows < MOST_ROWS else 1)
            reporter.advance(done)
        reporter.check()
        self._multiply(1)
        self._solve()
        reporter.advance(len(groups) + 1)

    def _solve(self) -> None:
        weights, bias = self._equations.solve(self.penalty)
        maps = weights[: self._maps].reshape(-1, self._n, self._hidden, self._hidden)
        self.local.level_maps.copy_(maps[self._block])
        self.local.level_bias.zero_()
        features = self.position_features.cpu()
        types = self._maps + features.shape[1]
        self.local.position_bias.copy_(features @ weights[self._maps : types] + bias)
        self.local.type_bias.zero_()
        self.local.type_bias[1:].copy_(weights[types:])

    def _gather(self, batch: Batch, target: Tensor) -> None:
        """Sort the tokens of a batch by the levels of the fragments that speak of them."""
        with self.arithmetic.autocast():
            states = self.local.states(torch.from_numpy(batch.unique).to(self.arithmetic.device)).float()
        device = states.device
        level = torch.from_numpy(fragments.level_of(batch.unique, self.config.missing_id).astype(np.int64))
        rows, places = torch.nonzero(batch.mask, as_tuple=True)
        speakers, there = self._speakers(batch, rows, places)
        spoken = level[speakers].masked_fill(~there, self._nothing)
        combinations, which = torch.unique(spoken, dim=0, return_inverse=True)
        known = torch.cat(
            (self.position_features[places.to(device)], self._types(batch, rows, places)), dim=1
        )
        wanted = target[rows.to(device), places.to(device)]
        speakers = speakers.to(device)
        for number, combination in enumerate(combinations.tolist()):
            chosen = (which == number).to(device)
            slots = [slot for slot, at in enumerate(combination) if at != self._nothing]
            features = [states[speakers[chosen, slot], slot] for slot in slots]
            waiting = self._waiting.setdefault(tuple(combination), [])
            waiting.append((torch.cat([*features, known[chosen]], dim=1), wanted[chosen]))
        self._rows += len(rows)

    def _speakers(self, batch: Batch, rows: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """[N, n]: the row of `unique` of the fragment that says something of each token in slot s, which is
        the one n // 2 - s places further; and whether its text reaches so far.
        """
        away = self._n // 2 - torch.arange(self._n)
        at = places[:, None] + away
        there = (at >= 0) & (at < batch.lengths[rows][:, None])
        return batch.where[rows[:, None], at.clamp(0, batch.where.shape[1] - 1)], there

    def _types(self, batch: Batch, rows: Tensor, places: Tensor) -> Tensor:
        """[N, types - 1]: which token type other than the first it is."""
        types = batch.types[rows, places][:, None] == torch.arange(1, self.config.type_count)
        return types.to(self.position_features.device, torch.float32)

    def _multiply(self, enough: int) -> None:
        """Hand over the combinations for which at least `enough` rows wait."""
        hidden = self._hidden
        for combination, waiting in list(self._waiting.items()):
            count = sum(len(x) for x, _ in waiting)
            if count < enough:
                continue
            del self._waiting[combination]
            self._rows -= count
            blocks = [
                torch.arange(hidden) + (int(self._block[level]) * self._n + slot) * hidden
                for slot, level in enumerate(combination)
                if level != self._nothing
            ]
            known = torch.arange(self._maps, self._equations.features)
            x, y = (torch.cat(parts) for parts in zip(*waiting, strict=True))
            self._equations.add(x, y, torch.cat([*blocks, known]))


def shared_maps(n: int) -> list[int]:
    """For each level the number of the maps that are fitted for it.

    The levels that a table keeps have maps of their own; the others, of which there are many in a long window
    and which occur at the ends of texts only, take those of the largest kept one that sees no more than they
    do.
    """
    window = Window(n, missing=-1)
    kept = _kept_levels(window)
    extents = [fragments.extent(level, n) for level in range(fragments.level_count(n))]

    def stands_for(level: int) -> int:
        left, right = extents[level]
        within = [k for k in kept if extents[k][0] <= left and extents[k][1] <= right]
        return kept.index(max(within, key=lambda k: sum(extents[k])))

    return [stands_for(level) for level in range(fragments.level_count(n))]


def _kept_levels(window: Window) -> list[int]:
    """Complete, tri-gram, bi-grams, uni-gram: as far as the window has them."""
    wanted = {(window.before, window.after), (0, 0)}
    wanted |= {(1, 1)} if min(window.before, window.after) else set()
    wanted |= {(1, 0)} | ({(0, 1)} if window.after else set())
    return [
        level
        for level in range(fragments.level_count(window.n))
        if fragments.extent(level, window.n) in wanted
    ]

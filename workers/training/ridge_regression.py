"""Local lower layers without training: ridge regressions on the hidden states of fragments."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.compose import CONTEXT_PARTS, Composition
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from workers.training.checkpoints import draws
from workers.training.hidden_states import Teacher, composed, local_slots
from workers.training.ngrams import Window
from workers.training.precision import Arithmetic
from workers.training.progress import Reporter
from workers.training.sequences import Batch, Framed, make_batch
from workers.training.simulated_misses import Patterns, Reading, everywhere, read_at


class NormalEquations:
    """Accumulates X'X and X'Y in float64 and solves (X'X + λI) W = X'Y, the bias free of the penalty.

    Rows may be sparse by columns: what is added has non-zero features in the given columns only. Products
    are taken in the precision of what is added (a few thousand rows at a time) and summed in float64.
    """

    def __init__(self, features: int, targets: int) -> None:
        self.features = features
        self._xx = torch.zeros(features + 1, features + 1, dtype=torch.float64)
        self._xy = torch.zeros(features + 1, targets, dtype=torch.float64)

    def add(self, x: Tensor, y: Tensor, columns: Tensor | None = None) -> None:
        """Rows `x` [N, k] with targets `y` [N, targets]; x[:, j] is feature `columns[j]` (int64 [k]; all by
        default).
        """
        where = torch.arange(self.features) if columns is None else columns.cpu()
        where = torch.cat((where, torch.tensor([self.features])))
        ones = torch.cat((x, x.new_ones(len(x), 1)), dim=1)
        self._xx[where[:, None], where] += (ones.T @ ones).cpu().double()
        self._xy[where] += (ones.T @ y).cpu().double()

    def solve(self, penalty: float) -> tuple[Tensor, Tensor]:
        """Weights [features, targets] and bias [targets], float32."""
        penalties = torch.full((self.features + 1,), penalty, dtype=torch.float64)
        # The bias is free, but for a trace that keeps an empty or constant system solvable.
        penalties[-1] = 1e-6
        # In place and back: with the hidden size of a large model this matrix takes a gigabyte.
        self._xx.diagonal().add_(penalties)
        factor = torch.linalg.cholesky(self._xx)
        self._xx.diagonal().sub_(penalties)
        solution = torch.cholesky_solve(self._xy, factor)
        return solution[:-1].float(), solution[-1].float()

    def solve_low_rank(self, rank: int, penalty_share: float) -> tuple[Tensor, Tensor]:
        """`down` [features, rank] and `up` [rank, targets], float32, without a bias: of all maps of that rank
        the one nearest to the full solution on the data (reduced-rank regression).

        penalty_share: the penalty, of the mean variance of a feature.
        """
        xx, xy, count = self._xx[:-1, :-1], self._xy[:-1], self._xx[-1, -1].clamp(min=1)
        variance = xx.diagonal() - self._xx[-1, :-1].square() / count
        penalty = penalty_share * variance.mean() + 1e-6
        penalised = xx.clone()
        penalised.diagonal().add_(penalty)
        factor = torch.linalg.cholesky(penalised)
        weights = torch.cholesky_solve(xy, factor)
        _, directions = torch.linalg.eigh(weights.T @ xx @ weights)
        up = directions[:, -rank:].T
        return (weights @ up.T).float(), up.float()


# Rows of one combination of levels gathered before they are multiplied, and of all combinations together.
ROWS_PER_CHUNK = 512
MAX_ROWS = 30_000
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
                self._multiply(ROWS_PER_CHUNK if self._rows < MAX_ROWS else 1)
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
        level = torch.from_numpy(
            fragments.fragment_levels(batch.unique, self.config.missing_id).astype(np.int64)
        )
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
    extents = [fragments.level_extent(level, n) for level in range(fragments.level_count(n))]

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
        if fragments.level_extent(level, window.n) in wanted
    ]


# Of the mean square of a sum: little, for there are thousands of rows for each of the features.
PENALTY_SHARE = 0.01


@torch.no_grad()
def fit_context(
    local: LocalLower,
    teacher: Teacher,
    groups: Sequence[list[Framed]],
    table: Reading,
    config: RootConfig,
    reporter: Reporter,
) -> None:
    """Set `local`'s context term, of the rank it was made with, from texts read complete, as a table gives
    them and by uni-grams alone, all three alike.
    """
    rank = len(local.context_up)
    readings = (everywhere(0), table, everywhere(fragments.level_count(config.n) - 1))
    equations = NormalEquations(CONTEXT_PARTS * config.hidden, config.hidden)
    reporter.stage("context", len(groups) + 1)
    without = without_context(local.composition)
    for done, sequences in enumerate(groups, start=1):
        batch = make_batch(sequences, config)
        mask = batch.mask.to(local.context_up.device)
        target = teacher.at_cut(batch)
        for reading in readings:
            reporter.check()
            read = batch.reading(read_at(batch.fragments, reading(batch.fragments), config.missing_id))
            sums = composed(local_slots(local, read, teacher.arithmetic), read, without)
            equations.add(_around(sums, mask), (target - sums)[mask])
        reporter.advance(done)
    down, up = equations.solve_low_rank(rank, PENALTY_SHARE)
    local.context_down.copy_(down.reshape(CONTEXT_PARTS, config.hidden, rank))
    local.context_up.copy_(up)
    reporter.advance(len(groups) + 1)


def without_context(parts: Composition) -> Composition:
    """The same composition with a context term of rank 0."""
    return replace(parts, context_down=parts.context_down[:, :, :0], context_up=parts.context_up[:0])


def _around(sums: Tensor, mask: Tensor) -> Tensor:
    """[N, 4 * d]: of every token its own sum, that before, that after, and the mean of its text, of sums
    [B, T, d] that are zero at padding.
    """
    zero = torch.zeros_like(sums[:, :1])
    before, after = torch.cat((zero, sums[:, :-1]), dim=1), torch.cat((sums[:, 1:], zero), dim=1)
    mean = (sums.sum(1, keepdim=True) / mask.sum(1)[:, None, None]).expand_as(sums)
    return torch.cat((sums, before, after, mean), dim=-1)[mask]


def batches_for(groups: Sequence[list[Framed]], tokens: int) -> list[list[Framed]]:
    """The first batches with about so many tokens."""
    ends = np.cumsum([sum(len(one) for one in group) for group in groups])
    return list(groups[: 1 + int(np.searchsorted(ends, tokens))])

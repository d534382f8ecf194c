"""The closed-form fit of a local lower half: ridge regressions on the hidden states of fragments."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from inference.hplm import fragments
from inference.hplm.encoder import FullLower
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from inference.hplm.upload import Upload
from workers.training.checkpoints import seeded_rng
from workers.training.hidden_states import Teacher
from workers.training.ngrams import Window
from workers.training.precision import Precision
from workers.training.progress import Reporter
from workers.training.sequences import Batch, TokenSequence, make_batch
from workers.training.simulated_misses import MissSampler


class NormalEquations:
    """Accumulates X'X and X'Y in float64 and solves (X'X + λI) W = X'Y, without a penalty on the bias.

    Rows may be sparse: only the given columns are non-zero. Products are computed in the dtype of the added
    rows (a few thousand at a time) and summed in float64.
    """

    def __init__(self, features: int, targets: int) -> None:
        self.features = features
        self._xx = torch.zeros(features + 1, features + 1, dtype=torch.float64)
        self._xy = torch.zeros(features + 1, targets, dtype=torch.float64)

    def add(self, x: Tensor, y: Tensor, columns: Tensor | None = None) -> None:
        """Add rows `x` [N, k] with targets `y` [N, targets].

        columns: int64 [k]; x[:, j] is feature `columns[j]`. By default `x` has all features.
        """
        indices = torch.arange(self.features) if columns is None else columns.cpu()
        indices = torch.cat((indices, torch.tensor([self.features])))
        ones = torch.cat((x, x.new_ones(len(x), 1)), dim=1)
        self._xx[indices[:, None], indices] += (ones.T @ ones).cpu().double()
        self._xy[indices] += (ones.T @ y).cpu().double()

    def solve(self, penalty: float) -> tuple[Tensor, Tensor]:
        """Weights [features, targets] and bias [targets], float32."""
        penalties = torch.full((self.features + 1,), penalty, dtype=torch.float64)
        # A tiny penalty on the bias keeps an empty or constant system solvable.
        penalties[-1] = 1e-6
        # In place and undone: for a large model a copy of this matrix would take a gigabyte.
        self._xx.diagonal().add_(penalties)
        factor = torch.linalg.cholesky(self._xx)
        self._xx.diagonal().sub_(penalties)
        solution = torch.cholesky_solve(self._xy, factor)
        return solution[:-1].float(), solution[-1].float()


# Rows to collect before they are multiplied: of one combination of levels, and of all together.
ROWS_PER_CHUNK = 512
MAX_ROWS = 30_000
STAGE = 1

Combination = tuple[int, ...]


@dataclass
class RidgeFit:
    """Fits `local` in place.

    position_features: [max_tokens, p]; a position's bias is a linear function of them, so that positions the
    corpus never reaches get a sensible bias too. misses: how the second half of the rows is looked up.
    """

    local: LocalLower
    teacher: Teacher
    position_features: Tensor
    config: RootConfig
    precision: Precision
    misses: MissSampler
    penalty: float
    seed: int
    _collected: dict[Combination, list[tuple[Tensor, Tensor]]] = field(default_factory=dict)
    _rows: int = 0

    def __post_init__(self) -> None:
        self._n, self._hidden = self.config.n, self.config.hidden
        self._no_level = fragments.level_count(self._n)
        self._map_of_level = torch.tensor(shared_maps(self._n))
        self._maps = (int(self._map_of_level.max()) + 1) * self._n * self._hidden
        positions = self.position_features.shape[1]
        self._equations = NormalEquations(self._maps + positions + self.config.type_count - 1, self._hidden)

    @torch.no_grad()
    def fit(self, batches: Sequence[list[TokenSequence]], reporter: Reporter) -> None:
        """One pass over the batches, then one solution."""
        reporter.start_stage("closed form", len(batches) + 1)
        for done, sequences in enumerate(batches, start=1):
            reporter.raise_if_cancelled()
            batch = make_batch(sequences, self.config, self.precision.device)
            rng = seeded_rng(self.seed, STAGE, done)
            target = self.teacher.at_cut(batch)
            cuts = np.cumsum([len(one) for one in sequences])[:-1]
            parts = np.split(batch.fragments, cuts)
            mixed = [self.misses.sample(part, rng, self.config.missing_id) for part in parts]
            for variant in (batch, batch.with_lookups(np.concatenate(mixed))):
                self._collect(variant, target)
                self._multiply(ROWS_PER_CHUNK if self._rows < MAX_ROWS else 1)
            reporter.report(done)
        reporter.raise_if_cancelled()
        self._multiply(1)
        self._solve()
        reporter.report(len(batches) + 1)

    def _solve(self) -> None:
        weights, bias = self._equations.solve(self.penalty)
        maps = weights[: self._maps].reshape(-1, self._n, self._hidden, self._hidden)
        self.local.level_maps.copy_(maps[self._map_of_level])
        self.local.level_bias.zero_()
        features = self.position_features.cpu()
        types = self._maps + features.shape[1]
        self.local.position_bias.copy_(features @ weights[self._maps : types] + bias)
        self.local.type_bias.zero_()
        self.local.type_bias[1:].copy_(weights[types:])

    def _collect(self, batch: Batch, target: Tensor) -> None:
        """Group the tokens of a batch by the levels of the fragments that contribute to them."""
        with self.precision.autocast():
            states = self.local.states(torch.from_numpy(batch.unique)).float()
        level = torch.from_numpy(
            fragments.fragment_levels(batch.unique, self.config.missing_id).astype(np.int64)
        )
        rows, positions = torch.nonzero(batch.mask, as_tuple=True)
        contributors, exists = self._contributors(batch, rows, positions)
        contributed = level[contributors].masked_fill(~exists, self._no_level)
        combinations, which = torch.unique(contributed, dim=0, return_inverse=True)
        upload = Upload(self.precision.device)
        at, types = upload.add(positions.numpy()), upload.add(self._types(batch, rows, positions).numpy())
        members = [torch.nonzero(which == number).squeeze(1) for number in range(len(combinations))]
        chosen = [upload.add(one.numpy()) for one in members]
        sources = [upload.add(contributors[one].numpy()) for one in members]
        known = torch.cat((self.position_features[at.tensor], types.tensor), dim=1)
        wanted = batch.tokens_of(target)
        for number, combination in enumerate(combinations.tolist()):
            slots = [slot for slot, level_of in enumerate(combination) if level_of != self._no_level]
            features = [states[sources[number].tensor[:, slot], slot] for slot in slots]
            collected = self._collected.setdefault(tuple(combination), [])
            rows_of = chosen[number].tensor
            collected.append((torch.cat([*features, known[rows_of]], dim=1), wanted[rows_of]))
        self._rows += len(rows)

    def _contributors(self, batch: Batch, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """[N, n]: the row in `unique` of the fragment for slot s of each token, and whether there is one.

        It is the fragment of the token n // 2 - s positions further.
        """
        at = positions[:, None] + self._n // 2 - torch.arange(self._n)
        exists = (at >= 0) & (at < batch.lengths[rows][:, None])
        return batch.lookup_index[rows[:, None], at.clamp(0, batch.lookup_index.shape[1] - 1)], exists

    def _types(self, batch: Batch, rows: Tensor, positions: Tensor) -> Tensor:
        """[N, types - 1]: one-hot token types, without the first."""
        types = batch.types[rows, positions][:, None] == torch.arange(1, self.config.type_count)
        return types.float()

    def _multiply(self, minimum: int) -> None:
        """Add the combinations with at least `minimum` collected rows to the equations."""
        hidden = self._hidden
        for combination, collected in list(self._collected.items()):
            count = sum(len(x) for x, _ in collected)
            if count < minimum:
                continue
            del self._collected[combination]
            self._rows -= count
            blocks = [
                torch.arange(hidden) + (int(self._map_of_level[level]) * self._n + slot) * hidden
                for slot, level in enumerate(combination)
                if level != self._no_level
            ]
            known = torch.arange(self._maps, self._equations.features)
            x, y = (torch.cat(parts) for parts in zip(*collected, strict=True))
            self._equations.add(x, y, torch.cat([*blocks, known]))


def shared_maps(n: int) -> list[int]:
    """For each level, the index of its maps.

    The levels that a table keeps have maps of their own. The others, which are many in a long window and
    occur only at the ends of texts, share those of the largest kept level within their extent.
    """
    window = Window(n, missing=-1)
    kept = _kept_levels(window)
    extents = [fragments.level_extent(level, n) for level in range(fragments.level_count(n))]

    def shared_index(level: int) -> int:
        left, right = extents[level]
        within = [k for k in kept if extents[k][0] <= left and extents[k][1] <= right]
        return kept.index(max(within, key=lambda k: sum(extents[k])))

    return [shared_index(level) for level in range(fragments.level_count(n))]


def _kept_levels(window: Window) -> list[int]:
    """The levels of the complete fragment, tri-gram, bi-grams and uni-gram, as far as the window has them."""
    wanted = {(window.before, window.after), (0, 0)}
    wanted |= {(1, 1)} if min(window.before, window.after) else set()
    wanted |= {(1, 0)} | ({(0, 1)} if window.after else set())
    return [
        level
        for level in range(fragments.level_count(window.n))
        if fragments.level_extent(level, window.n) in wanted
    ]


def position_features(full: FullLower, max_tokens: int) -> Tensor:
    """[max_tokens, e]: the checkpoint's position embeddings; [max_tokens, 0] if it has none."""
    first, table = full.architecture.position_offset, full.embeddings.positions
    if table is None:
        return torch.zeros(max_tokens, 0, device=full.word_embeddings.device)
    with torch.no_grad():
        return table.weight[first : first + max_tokens].clone()


def first_batches(batches: Sequence[list[TokenSequence]], tokens: int) -> list[list[TokenSequence]]:
    """The first batches, of about `tokens` tokens together."""
    ends = np.cumsum([sum(len(one) for one in batch) for batch in batches])
    return list(batches[: 1 + int(np.searchsorted(ends, tokens))])

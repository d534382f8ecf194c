"""Training of a root's context mixer on cached states: the sums of fragment vectors that tables give, and the
original states.

Neither changes while a mixer is trained, so each is computed once for all steps. The cache takes
(views + 1) * hidden * 2 bytes of a token: with three views 460 MB for 150,000 tokens of a root 384 wide,
1.2 GB if 1,024 wide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import LayerNorm, functional
from torch.nn.utils.rnn import pad_sequence

from inference.hplm import fragments
from inference.hplm.context_mixer import EPS, ContextMixer
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from inference.hplm.upload import Upload
from workers.training.checkpoints import seeded_generator, seeded_rng
from workers.training.hidden_states import Teacher, composed_states
from workers.training.lower_training import Variances
from workers.training.optimizer import Optimizer, with_prefix
from workers.training.precision import Precision
from workers.training.progress import Reporter
from workers.training.sequences import Batch, TokenSequence, index_batches, make_batch
from workers.training.simulated_misses import (
    FragmentFrequencies,
    LevelFunction,
    SimulatedTable,
    constant_level,
    ladders_to_choose,
    shorten_to_levels,
)

STAGE = 3
"""Key of the random draws of the order of texts, and of the initial weights."""
_VIEWS = 4
"""Key of the random draws of views."""
ALPHAS = (20.0, 40.0, 60.0, 80.0)
"""The coverages, in %, of the simulated tables."""
CHUNK = 32
"""Batches whose lookups are computed together."""
ROWS_AT_ONCE = 2_048
PASSES = 4
"""How often the cached tokens are read, each time as another table would give them."""
BATCH_TOKENS = 300
"""Tokens of a step. Of the same tokens, steps of 300 leave a twentieth less unexplained than steps of 900."""
LEARNING_RATE = 4e-3
WARMUP_STEPS = 40
LAST_SHARE = 0.12
"""The share of the steps, at the end, that add the error after the last layer. They take five times as long,
and earlier they only disturb: both errors then end higher than without them."""


def new_mixer(hidden: int, seed: int) -> ContextMixer:
    """A mixer with seeded weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seeded_generator(seed, STAGE).initial_seed())
        return ContextMixer(hidden)


def fitted_norm(cached: Sequence["CachedSequence"]) -> LayerNorm:
    """The norm whose outputs are closest to the original states, where no norm has made them."""
    states = torch.cat([one.original for one in cached]).float()
    norm = LayerNorm(states.shape[1], eps=EPS)
    inputs = functional.layer_norm(states, norm.normalized_shape, eps=EPS)
    mean, deviations = inputs.mean(0), inputs - inputs.mean(0)
    weight = (deviations * states).sum(0) / deviations.square().sum(0).clamp_min(EPS)
    norm.load_state_dict({"weight": weight, "bias": states.mean(0) - weight * mean})
    return norm


def mixer_views(frequencies: FragmentFrequencies) -> list[list[LevelFunction]]:
    """The `kinds` of `cache_states`: texts are read as tables of ALPHAS and of each ladder have them, and by
    uni-grams alone."""
    n = frequencies.window.n
    views = [
        [SimulatedTable(frequencies, alpha, ladder).level_function(leave_one_out=True) for alpha in ALPHAS]
        for ladder in ladders_to_choose(n).values()
    ]
    return [*views, [constant_level(fragments.level_count(n) - 1)]]


@dataclass(frozen=True, eq=False)
class View:
    """How a table reads a text of T tokens: sums [T, d] float16 of its fragments' vectors, and the HIT_* [T]
    int64 of each token."""

    sums: Tensor
    levels: Tensor


@dataclass(frozen=True, eq=False)
class CachedSequence:
    """States at the cut of a text of T tokens, on the CPU: as tables read it, and the original ones [T, d]
    float16."""

    views: tuple[View, ...]
    original: Tensor

    def __len__(self) -> int:
        return len(self.original)


@torch.no_grad()
def cache_states(
    local: LocalLower,
    teacher: Teacher,
    batches: Sequence[list[TokenSequence]],
    kinds: Sequence[Sequence[LevelFunction]],
    config: RootConfig,
    seed: int,
    reporter: Reporter,
) -> list[CachedSequence]:
    """The states of all sequences. kinds: for each view of a text, the level functions to draw one from.

    `local` must have no mixer yet. The vectors of fragments are computed once for all views of many batches.
    """
    assert local.mixer is None, "sums are what a mixer reads"
    reporter.start_stage("states", len(batches))
    cached: list[CachedSequence] = []
    for first in range(0, len(batches), CHUNK):
        chunk = [make_batch(one, config, teacher.precision.device) for one in batches[first : first + CHUNK]]
        reads = [
            [
                _read(batch, functions, config.missing_id, seeded_rng(seed, _VIEWS, first + at))
                for functions in kinds
            ]
            for at, batch in enumerate(chunk)
        ]
        rows = _Rows(local, teacher.precision, [read for views in reads for read in views], reporter)
        for done, (batch, views) in enumerate(zip(chunk, reads, strict=True), start=first + 1):
            reporter.raise_if_cancelled()
            original = _of_texts(teacher.at_cut(batch), batch)
            sums = [_of_texts(composed_states(local, rows.of(read), read), read) for read in views]
            levels = [torch.split(read.levels[read.mask], read.lengths.tolist()) for read in views]
            for text, states in enumerate(original):
                own = (View(of[text], at[text]) for of, at in zip(sums, levels, strict=True))
                cached.append(CachedSequence(tuple(own), states))
            reporter.report(done)
    return cached


def _read(batch: Batch, functions: Sequence[LevelFunction], missing: int, rng: np.random.Generator) -> Batch:
    """The batch, each of whose texts is looked up with one of the level functions."""
    texts = np.split(batch.fragments, np.cumsum(batch.lengths.numpy())[:-1])
    drawn = rng.integers(len(functions), size=len(texts))
    shortened = [
        shorten_to_levels(text, functions[number](text), missing)
        for text, number in zip(texts, drawn, strict=True)
    ]
    return batch.with_lookups(np.concatenate(shortened))


def _of_texts(states: Tensor, batch: Batch) -> tuple[Tensor, ...]:
    """The states [T, d] float16 of each text of padded states, on the CPU."""
    return torch.split(batch.tokens_of(states).half().cpu(), batch.lengths.tolist())


class _Rows:
    """The vectors of the lookups of many batches, float16, each computed once."""

    def __init__(
        self, local: LocalLower, precision: Precision, reads: Sequence[Batch], reporter: Reporter
    ) -> None:
        self._keys, unique, _ = fragments.unique(np.concatenate([read.unique for read in reads]))
        vectors = []
        for piece in torch.split(torch.from_numpy(unique), ROWS_AT_ONCE):
            reporter.raise_if_cancelled()
            with precision.autocast():
                vectors.append(local(piece).half())
        self._vectors = torch.cat(vectors)

    def of(self, read: Batch) -> Tensor:
        """Those [U, n, d] of one batch."""
        at = np.searchsorted(self._keys, fragments.pack(read.unique))
        return self._vectors[Upload(self._vectors.device).add(at).tensor]


class MixerTraining:
    """Trains a context mixer to give the original states at the cut, in the end also those after the last
    layer. Everything else is frozen."""

    def __init__(
        self,
        mixer: ContextMixer,
        teacher: Teacher,
        cached: Sequence[CachedSequence],
        variances: Variances,
        seed: int,
    ) -> None:
        self._mixer, self._teacher, self._variances, self._seed = mixer, teacher, variances, seed
        lengths = [len(one) for one in cached]
        self._batches = [
            [cached[index] for index in batch]
            for number in range(PASSES)
            for batch in index_batches(lengths, BATCH_TOKENS, seeded_rng(seed, STAGE, number))
        ]
        groups = [{"params": mixer.parameters(), "lr": LEARNING_RATE}]
        self._optimizer = Optimizer(groups, steps=len(self), warmup=WARMUP_STEPS)

    def __len__(self) -> int:
        """The number of steps."""
        return len(self._batches)

    def step(self, number: int, progress: float | None) -> dict[str, float]:
        """Train on one batch, read in one way, and return its loss."""
        rng = seeded_rng(self._seed, STAGE, PASSES, number)
        batch = self._batches[number]
        view = int(rng.integers(len(batch[0].views)))
        with_last = number >= (1 - LAST_SHARE) * len(self)
        loss = self._optimizer.train_step(
            batch, lambda part: self._loss(part, view, with_last), progress=progress
        )
        return {"loss": loss}

    def _loss(self, part: list[CachedSequence], view: int, with_last: bool) -> Tensor:
        precision = self._teacher.precision
        lengths = torch.tensor([len(one) for one in part])
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).to(precision.device)
        sums, levels, original = (
            pad_sequence(parts, batch_first=True).to(precision.device)
            for parts in (
                [one.views[view].sums for one in part],
                [one.views[view].levels for one in part],
                [one.original for one in part],
            )
        )
        original = original.float()
        with precision.autocast():
            mixed: Tensor = self._mixer(sums.float(), mask, levels)
        error = _error(mixed, original, mask, self._variances.cut)
        if not with_last:
            return error
        with torch.no_grad():
            wanted = self._above(original, mask)
        return error + _error(self._above(mixed, mask), wanted, mask, self._variances.last)

    def _above(self, states: Tensor, mask: Tensor) -> Tensor:
        with self._teacher.precision.autocast():
            last: Tensor = self._teacher.upper(states, mask, None)
        return last.float()

    def state_dict(self) -> Mapping[str, Tensor]:
        """The mixer's weights and the optimizer's moments."""
        weights = {f"mixer.{name}": value for name, value in self._mixer.state_dict().items()}
        return weights | self._optimizer.state_dict()

    def load_state_dict(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Restore `state_dict` as it was after `steps` steps."""
        self._mixer.load_state_dict(with_prefix(tensors, "mixer."))
        self._optimizer.load_state_dict(tensors, steps)


def _error(states: Tensor, target: Tensor, mask: Tensor, variance: float) -> Tensor:
    """Mean squared error per token over the variance, of padded states [B, T, d]."""
    return ((states - target).square().sum(-1) * mask).sum() / mask.sum() / variance

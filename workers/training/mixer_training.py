"""Training of a root's context mixer on cached states: the sums of fragment vectors that tables give, and the
original states.

Neither changes while a mixer is trained, so each is computed once for all steps. The cache takes
(views + 1) * hidden * 2 bytes of a token: 460 MB for 200,000 tokens of a root 384 wide, 1.2 GB if 1,024 wide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from inference.hplm.context_mixer import ContextMixer
from inference.hplm.local_lower import LocalLower
from inference.hplm.root_config import RootConfig
from workers.training.checkpoints import seeded_rng
from workers.training.hidden_states import Teacher, local_states
from workers.training.lower_training import Variances
from workers.training.optimizer import Optimizer, with_prefix
from workers.training.progress import Reporter
from workers.training.sequences import TokenSequence, index_batches, make_batch
from workers.training.simulated_misses import LevelFunction, shorten_to_levels

STAGE = 3
_VIEWS = 4
"""Key of the random draws of views."""
PASSES = 3
"""How often the cached tokens are read."""
BATCH_TOKENS = 300
"""Tokens of a step. Of the same tokens, steps of 300 leave a twentieth less unexplained than steps of 900."""
LEARNING_RATE = 2e-3
WARMUP_STEPS = 40
LAST_SHARE = 0.25
"""The share of the steps with the error after the last layer, which take three times as long."""


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

    `local` must have no mixer yet.
    """
    assert local.mixer is None, "sums are what a mixer reads"
    reporter.start_stage("states", len(batches))
    cached: list[CachedSequence] = []
    for done, sequences in enumerate(batches, start=1):
        reporter.raise_if_cancelled()
        rng = seeded_rng(seed, _VIEWS, done)
        batch = make_batch(sequences, config, teacher.precision.device)
        lengths = batch.lengths.tolist()
        original = batch.tokens_of(teacher.at_cut(batch)).half().cpu().split(lengths)
        texts = np.split(batch.fragments, np.cumsum(lengths)[:-1])
        views = []
        for functions in kinds:
            drawn = rng.integers(len(functions), size=len(texts))
            lookups = [
                shorten_to_levels(text, functions[number](text), config.missing_id)
                for text, number in zip(texts, drawn, strict=True)
            ]
            read = batch.with_lookups(np.concatenate(lookups))
            sums = read.tokens_of(local_states(local, read, teacher.precision)).half().cpu().split(lengths)
            levels = read.levels[read.mask].split(lengths)
            views.append([View(*pair) for pair in zip(sums, levels, strict=True)])
        of_texts = zip(*views, strict=True)
        cached += [CachedSequence(*pair) for pair in zip(of_texts, original, strict=True)]
        reporter.report(done)
    return cached


class MixerTraining:
    """Trains a context mixer to give the original states: at the cut, and after the last layer on a share of
    the steps. Everything else is frozen."""

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
        with_last = bool(rng.random() < LAST_SHARE)
        loss = self._optimizer.train_step(
            batch, lambda part: self._loss(part, view, with_last), progress=progress
        )
        return {"loss": loss}

    def _loss(self, part: list[CachedSequence], view: int, with_last: bool) -> Tensor:
        device, precision = self._teacher.precision.device, self._teacher.precision
        lengths = torch.tensor([len(one) for one in part])
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).to(device)
        sums = pad_sequence([one.views[view].sums for one in part], batch_first=True).to(device).float()
        levels = pad_sequence([one.views[view].levels for one in part], batch_first=True).to(device)
        original = pad_sequence([one.original for one in part], batch_first=True).to(device).float()
        with precision.autocast():
            mixed = self._mixer(sums, mask, levels).masked_fill(~mask[..., None], 0)
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
        return mixer_state_dict(self._mixer) | self._optimizer.state_dict()

    def load_state_dict(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Restore `state_dict` as it was after `steps` steps."""
        self._mixer.load_state_dict(with_prefix(tensors, "mixer."))
        self._optimizer.load_state_dict(tensors, steps)


def mixer_state_dict(mixer: ContextMixer) -> dict[str, Tensor]:
    """The weights of a mixer, for a checkpoint."""
    return {f"mixer.{name}": value for name, value in mixer.state_dict().items()}


def _error(states: Tensor, target: Tensor, mask: Tensor, variance: float) -> Tensor:
    """Mean squared error per token over the variance, of padded states [B, T, d]."""
    return ((states - target).square().sum(-1) * mask).sum() / mask.sum() / variance

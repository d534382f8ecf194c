"""Masked language modelling (paper section 5.1, after BERT): masking, the loss, and fitting a head."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm import fragments
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import LmHead, Root
from inference.hplm.root_config import RootConfig
from workers.training.checkpoints import Checkpoints, draws, torch_draws
from workers.training.corpus import Ids
from workers.training.hidden_states import Teacher, local_states
from workers.training.optimizer import Optimiser, WordRows
from workers.training.progress import Reporter
from workers.training.sequences import Batch, Framed, make_batch
from workers.training.simulated_misses import Patterns
from workers.training.training_loop import Budget, finished, learn

SELECTED = 0.15
MASKED, RANDOM = 0.8, 0.1


@dataclass(frozen=True, eq=False)
class Hidden:
    """A sequence with tokens hidden: what the model reads of it and, in place of its fragments, `read`
    [T, n]; the token at places[k] was wanted[k].
    """

    framed: Framed
    read: Ids
    places: Ids
    wanted: Ids

    def __len__(self) -> int:
        return len(self.framed)


def hide(
    sequence: Framed, config: RootConfig, rng: np.random.Generator, patterns: Patterns | None = None
) -> Hidden:
    """Hide tokens of a sequence and, with `patterns`, draw which of its fragments a table would lack.

    15% of the tokens that are not special, at least one; of these 80% become [MASK], 10% a random token and
    10% stay.
    """
    ids = sequence.ids
    may_go = np.flatnonzero(~np.isin(ids, (config.cls_id, config.sep_id)))
    places = may_go[rng.random(len(may_go)) < SELECTED]
    if not len(places) and len(may_go):
        places = rng.choice(may_go, size=1)
    fate = rng.random(len(places))
    left = ids.copy()
    left[places[fate < MASKED]] = config.mask_id
    at_random = places[(fate >= MASKED) & (fate < MASKED + RANDOM)]
    left[at_random] = rng.integers(config.vocab, size=len(at_random))
    read = fragments.extract(left, config.missing_id, config.n)
    if patterns is not None:
        read = patterns.draw(read, rng, config.missing_id)
    return Hidden(Framed(left, sequence.types), read, places, ids[places])


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Sequences with tokens hidden: the token at (`rows`[k], `places`[k]) was `wanted`[k], int64 all."""

    batch: Batch
    rows: Tensor
    places: Tensor
    wanted: Tensor


def masked_batch(sequences: Sequence[Hidden], config: RootConfig) -> MaskedBatch:
    """The batch of these sequences, as they are read."""
    rows = np.repeat(np.arange(len(sequences)), [len(one.places) for one in sequences])
    places = np.concatenate([one.places for one in sequences])
    wanted = np.concatenate([one.wanted for one in sequences])
    batch = make_batch([one.framed for one in sequences], config)
    batch = batch.reading(np.concatenate([one.read for one in sequences]))
    return MaskedBatch(batch, torch.from_numpy(rows), torch.from_numpy(places), torch.from_numpy(wanted))


HEAD_STAGE = 1
HEAD_STAGE_NAME = "fit language model head"
HEAD_WARMUP_STEPS = 10
HEAD_BATCH = 256
# Of the draws of a job: which tokens are hidden in held-out text.
_HELD_OUT = 2001


@dataclass(frozen=True)
class LanguageModel:
    """words: [vocab, e], the root's own word embeddings: the head is tied to them, they are never trained."""

    local: LocalLower
    teacher: Teacher
    head: LmHead
    words: Tensor
    config: RootConfig

    def states(self, masked: MaskedBatch, rows: WordRows | None = None) -> Tensor:
        """States at the cut from fragments, [B, T, d]."""
        return local_states(self.local, masked.batch, self.teacher.arithmetic, rows)

    def loss(self, masked: MaskedBatch, at_cut: Tensor) -> Tensor:
        """Mean cross-entropy, in nats, of the hidden tokens."""
        guessing = self._guessing(masked, at_cut)
        with self.teacher.arithmetic.autocast():
            logits: Tensor = self.head(guessing, self.words)
        return functional.cross_entropy(logits.float(), masked.wanted.to(at_cut.device))

    @torch.no_grad()
    def perplexity(
        self, groups: Sequence[list[Framed]], seed: int, reporter: Reporter, *, original: bool = False
    ) -> float:
        """exp of the mean loss of a hidden token; the same seed hides the same tokens.

        original: with the root's own lower layers and full context, in place of the local ones.
        """
        total, count = 0.0, 0
        for number, sequences in enumerate(groups):
            reporter.check()
            rng = draws(seed, _HELD_OUT, number)
            masked = masked_batch([hide(one, self.config, rng) for one in sequences], self.config)
            at_cut = self.teacher.at_cut(masked.batch) if original else self.states(masked)
            total += float(self.loss(masked, at_cut)) * len(masked.wanted)
            count += len(masked.wanted)
        return math.exp(total / count)

    def fit_head(
        self,
        groups: Sequence[list[Framed]],
        *,
        learning_rate: float,
        passes: int,
        seed: int,
        reporter: Reporter,
        checkpoints: Checkpoints,
    ) -> None:
        """Train the head alone, `passes` times over the final states of the tokens hidden in the batches.

        Nothing below the head moves, so these states are computed once: in every other batch through the
        root's own lower layers with full context, so that the head knows what states should be like.
        """
        done = finished(checkpoints, HEAD_STAGE_NAME)
        if done is not None:
            _restore_head(self.head, done.tensors)
            self.head.requires_grad_(False)
            return
        states, wanted = self._final_states(groups, seed, reporter)
        self.head.requires_grad_(True)
        fitting = _HeadFitting(self, states, wanted, learning_rate, passes, seed)
        learn(HEAD_STAGE_NAME, fitting, Budget(len(fitting.steps)), reporter, checkpoints)
        self.head.requires_grad_(False)

    @torch.no_grad()
    def _final_states(
        self, groups: Sequence[list[Framed]], seed: int, reporter: Reporter
    ) -> tuple[Tensor, Tensor]:
        """States after the last layer [K, d] of hidden tokens, and what these were [K]."""
        reporter.stage("read for the language model head", len(groups))
        states, wanted = [], []
        for done, sequences in enumerate(groups, start=1):
            reporter.check()
            rng = draws(seed, HEAD_STAGE, done)
            masked = masked_batch([hide(one, self.config, rng) for one in sequences], self.config)
            at_cut = self.states(masked) if done % 2 else self.teacher.at_cut(masked.batch)
            states.append(self._guessing(masked, at_cut))
            wanted.append(masked.wanted.to(states[-1].device))
            reporter.advance(done)
        return torch.cat(states), torch.cat(wanted)

    def _guessing(self, masked: MaskedBatch, at_cut: Tensor) -> Tensor:
        """States after the last layer of the hidden tokens, [K, d]."""
        last = self.teacher.upper_states(at_cut, masked.batch)
        return last[masked.rows.to(at_cut.device), masked.places.to(at_cut.device)]


class _HeadFitting:
    def __init__(
        self,
        model: LanguageModel,
        states: Tensor,
        wanted: Tensor,
        learning_rate: float,
        passes: int,
        seed: int,
    ) -> None:
        self._model, self._states, self._wanted = model, states, wanted
        orders = [
            torch.randperm(len(wanted), generator=torch_draws(seed, HEAD_STAGE, 0, number))
            for number in range(passes)
        ]
        self.steps = [part for order in orders for part in torch.split(order, HEAD_BATCH)]
        self._optimiser = Optimiser(
            [{"params": model.head.parameters(), "lr": learning_rate}],
            steps=len(self.steps),
            warmup=HEAD_WARMUP_STEPS,
        )

    def step(self, number: int, progress: float | None) -> dict[str, float]:
        loss = self._optimiser.descend(self.steps[number].tolist(), self._loss, weight_of=_one)
        return {"loss": loss}

    def _loss(self, part: list[int]) -> Tensor:
        with self._model.teacher.arithmetic.autocast():
            logits = self._model.head(self._states[part], self._model.words)
        return functional.cross_entropy(logits.float(), self._wanted[part])

    def tensors(self) -> Mapping[str, Tensor]:
        own = {f"head.{name}": value for name, value in self._model.head.state_dict().items()}
        return own | self._optimiser.tensors()

    def restore(self, tensors: Mapping[str, Tensor], done: int) -> None:
        _restore_head(self._model.head, tensors)
        self._optimiser.restore(tensors, done)


def _one(_: int) -> float:
    return 1.0


def _restore_head(head: LmHead, tensors: Mapping[str, Tensor]) -> None:
    prefix = "head."
    head.load_state_dict({n[len(prefix) :]: value for n, value in tensors.items() if n.startswith(prefix)})


def new_head(root: Root, groups: Sequence[list[Framed]]) -> LmHead:
    """An untrained head that answers with the frequencies of the tokens in the batches."""
    head = LmHead(root.config.architecture)
    ids = np.concatenate([sequence.ids for group in groups for sequence in group])
    counts = np.bincount(ids, minlength=root.config.vocab) + 0.1
    with torch.no_grad():
        head.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))
        # A final state resembles its token's embedding: start from that, not from noise.
        torch.nn.init.eye_(head.dense.weight)
        head.dense.bias.zero_()
    return head

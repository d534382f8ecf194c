"""Masked language modelling (paper section 5.1, after BERT): masking, the loss, and fitting a head."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm import fragments
from inference.hplm.encoder import FullLower
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import LmHead, Root
from inference.hplm.root_config import RootConfig
from inference.hplm.upload import Upload
from workers.training.checkpoints import CheckpointStore, seeded_generator, seeded_rng
from workers.training.corpus import Ids
from workers.training.hidden_states import Teacher, full_states, local_states
from workers.training.optimizer import Optimizer, SparseAdamW, with_prefix
from workers.training.precision import CPU
from workers.training.progress import Reporter
from workers.training.sequences import Batch, LookupSequence, TokenSequence, make_lookup_batch
from workers.training.simulated_misses import MissSampler
from workers.training.training_loop import Budget, load_finished, train_stage

SELECTED = 0.15
MASKED, RANDOM = 0.8, 0.1


@dataclass(frozen=True, eq=False)
class MaskedSequence(LookupSequence):
    """A sequence with masked tokens: the token at positions[k] was labels[k]."""

    positions: Ids
    labels: Ids


def mask_tokens(
    sequence: TokenSequence,
    config: RootConfig,
    rng: np.random.Generator,
    misses: MissSampler | None = None,
) -> MaskedSequence:
    """Mask random tokens of a sequence; with `misses`, also draw how its fragments are looked up.

    15% of the tokens that are not special are selected, at least one. Of these 80% become [MASK], 10% a
    random token, and 10% stay.
    """
    ids = sequence.ids
    candidates = np.flatnonzero(~np.isin(ids, (config.cls_id, config.sep_id)))
    positions = candidates[rng.random(len(candidates)) < SELECTED]
    if not len(positions) and len(candidates):
        positions = rng.choice(candidates, size=1)
    chance = rng.random(len(positions))
    masked = ids.copy()
    masked[positions[chance < MASKED]] = config.mask_id
    at_random = positions[(chance >= MASKED) & (chance < MASKED + RANDOM)]
    masked[at_random] = rng.integers(config.vocab, size=len(at_random))
    lookups = fragments.extract(masked, config.missing_id, config.n)
    if misses is not None:
        lookups = misses.sample(lookups, rng, config.missing_id)
    return MaskedSequence(TokenSequence(masked, sequence.types), lookups, positions, ids[positions])


@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """Masked sequences: the token at (`rows`[k], `positions`[k]) was `labels`[k], int64 all.

    These three are on the device.
    """

    batch: Batch
    rows: Tensor
    positions: Tensor
    labels: Tensor


def masked_batch(
    sequences: Sequence[MaskedSequence], config: RootConfig, device: torch.device = CPU
) -> MaskedBatch:
    """Pad the sequences and find their unique lookups."""
    upload = Upload(device)
    rows = upload.add(np.repeat(np.arange(len(sequences)), [len(one.positions) for one in sequences]))
    positions = upload.add(np.concatenate([one.positions for one in sequences]))
    labels = upload.add(np.concatenate([one.labels for one in sequences]))
    batch = make_lookup_batch(sequences, config, device)
    return MaskedBatch(batch, rows.tensor, positions.tensor, labels.tensor)


HEAD_STAGE = 1
HEAD_STAGE_NAME = "fit language model head"
HEAD_WARMUP_STEPS = 10
HEAD_BATCH = 256
# Key of the random draws that mask held-out text.
_HELD_OUT = 2001


@dataclass(frozen=True)
class LanguageModel:
    """Lower layers, of fragments or with full context, below the root's upper layers and a head.

    words: [vocab, e], the root's word embeddings, which the head is tied to; they are never trained.
    """

    lower: LocalLower | FullLower
    teacher: Teacher
    head: LmHead
    words: Tensor
    config: RootConfig

    def batch(self, sequences: Sequence[MaskedSequence]) -> MaskedBatch:
        """The sequences as one batch on the model's device."""
        return masked_batch(sequences, self.config, self.teacher.precision.device)

    def states(self, masked: MaskedBatch, rows: SparseAdamW | None = None) -> Tensor:
        """States at the cut [B, T, d] float32, differentiable. rows: of the word embeddings in training."""
        if isinstance(self.lower, FullLower):
            return full_states(self.lower, masked.batch, self.teacher.precision, rows)
        return local_states(self.lower, masked.batch, self.teacher.precision, rows)

    def loss(self, masked: MaskedBatch, at_cut: Tensor) -> Tensor:
        """Mean cross-entropy, in nats, of the masked tokens."""
        states = self._final_states(masked, at_cut)
        with self.teacher.precision.autocast():
            logits: Tensor = self.head(states, self.words)
        return functional.cross_entropy(logits.float(), masked.labels)

    @torch.no_grad()
    def perplexity(self, batches: Sequence[list[TokenSequence]], seed: int, reporter: Reporter) -> float:
        """exp of the mean loss of a masked token; the same seed masks the same tokens."""
        total, count = 0.0, 0
        for number, sequences in enumerate(batches):
            reporter.raise_if_cancelled()
            rng = seeded_rng(seed, _HELD_OUT, number)
            masked = self.batch([mask_tokens(one, self.config, rng) for one in sequences])
            total += float(self.loss(masked, self.states(masked))) * len(masked.labels)
            count += len(masked.labels)
        return math.exp(total / count)

    def fit_head(
        self,
        batches: Sequence[list[TokenSequence]],
        *,
        learning_rate: float,
        epochs: int,
        seed: int,
        reporter: Reporter,
        checkpoints: CheckpointStore,
    ) -> None:
        """Train the head alone, `epochs` times over the final states of the tokens masked in the batches.

        The layers below are frozen, so these states are computed once: in every other batch through the
        root's own lower layers with full context, so that the head also sees exact states.
        """
        finished = load_finished(checkpoints, HEAD_STAGE_NAME)
        if finished is not None:
            self.head.load_state_dict(with_prefix(finished.tensors, "head."))
            self.head.requires_grad_(False)
            return
        states, labels = self._head_inputs(batches, seed, reporter)
        self.head.requires_grad_(True)
        training = _HeadTraining(self, states, labels, learning_rate, epochs, seed)
        train_stage(HEAD_STAGE_NAME, training, Budget(len(training.steps)), reporter, checkpoints)
        self.head.requires_grad_(False)

    @torch.no_grad()
    def _head_inputs(
        self, batches: Sequence[list[TokenSequence]], seed: int, reporter: Reporter
    ) -> tuple[Tensor, Tensor]:
        """Final states [K, d] of masked tokens, and their labels [K]."""
        reporter.start_stage("read for the language model head", len(batches))
        states, labels = [], []
        for done, sequences in enumerate(batches, start=1):
            reporter.raise_if_cancelled()
            rng = seeded_rng(seed, HEAD_STAGE, done)
            masked = self.batch([mask_tokens(one, self.config, rng) for one in sequences])
            at_cut = self.states(masked) if done % 2 else self.teacher.at_cut(masked.batch)
            states.append(self._final_states(masked, at_cut))
            labels.append(masked.labels)
            reporter.report(done)
        return torch.cat(states), torch.cat(labels)

    def _final_states(self, masked: MaskedBatch, at_cut: Tensor) -> Tensor:
        """States after the last layer of the masked tokens, [K, d]."""
        last = self.teacher.upper_states(at_cut, masked.batch)
        return last[masked.rows, masked.positions]


class _HeadTraining:
    def __init__(
        self,
        model: LanguageModel,
        states: Tensor,
        labels: Tensor,
        learning_rate: float,
        epochs: int,
        seed: int,
    ) -> None:
        self._model, self._states, self._labels = model, states, labels
        orders = [
            torch.randperm(len(labels), generator=seeded_generator(seed, HEAD_STAGE, 0, number))
            for number in range(epochs)
        ]
        self.steps = [part for order in orders for part in torch.split(order, HEAD_BATCH)]
        self._optimizer = Optimizer(
            [{"params": model.head.parameters(), "lr": learning_rate}],
            steps=len(self.steps),
            warmup=HEAD_WARMUP_STEPS,
        )

    def step(self, number: int, progress: float | None) -> dict[str, float]:
        loss = self._optimizer.train_step(self.steps[number].tolist(), self._loss, weight_of=lambda _: 1.0)
        return {"loss": loss}

    def _loss(self, part: list[int]) -> Tensor:
        chosen = Upload(self._states.device).add(np.asarray(part)).tensor
        with self._model.teacher.precision.autocast():
            logits = self._model.head(self._states[chosen], self._model.words)
        return functional.cross_entropy(logits.float(), self._labels[chosen])

    def state_dict(self) -> Mapping[str, Tensor]:
        own = {f"head.{name}": value for name, value in self._model.head.state_dict().items()}
        return own | self._optimizer.state_dict()

    def load_state_dict(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        self._model.head.load_state_dict(with_prefix(tensors, "head."))
        self._optimizer.load_state_dict(tensors, steps)


def new_head(root: Root, batches: Sequence[list[TokenSequence]]) -> LmHead:
    """An untrained head that predicts the token frequencies in the batches."""
    head = LmHead(root.config.architecture)
    ids = np.concatenate([sequence.ids for batch in batches for sequence in batch])
    counts = np.bincount(ids, minlength=root.config.vocab) + 0.1
    with torch.no_grad():
        head.bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))
        # A final state resembles its token's embedding: start from the identity, not from noise.
        torch.nn.init.eye_(head.dense.weight)
        head.dense.bias.zero_()
    return head

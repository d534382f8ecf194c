"""The training of a LoRA on completions: epochs over packed batches, until the dev loss no longer falls."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from inference.decoder.decoder import Decoder
from inference.decoder.dense_attention import DenseAttention
from workers.training.checkpoints import CheckpointStore, seeded_generator, seeded_rng
from workers.training.generative.lora_parameters import LoraParameters
from workers.training.generative.packing import PackedBatch, TrainingSequence, pack, token_batches
from workers.training.optimizer import Optimizer, with_prefix
from workers.training.progress import Reporter
from workers.training.tasks.base import IGNORE_INDEX

STAGE: Final = "fine-tune"
WARMUP_SHARE: Final = 0.06


class LowerStates(Protocol):
    """The states of sequences below layer `first`, which stay the same while the layers above learn."""

    first: int

    def of(self, indices: Sequence[int], batch: PackedBatch) -> Tensor:
        """The states [T, hidden] of the sequences number `indices`, which `batch` holds in this order."""


@dataclass(frozen=True)
class GenerativeSplit:
    """The sequences of a split that have something to learn, and their states below the learning layers."""

    sequences: Sequence[TrainingSequence]
    states: LowerStates

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each sequence."""
        return [len(one) for one in self.sequences]


def completion_loss(
    decoder: Decoder, lora: LoraParameters | None, split: GenerativeSplit, indices: Sequence[int]
) -> Tensor:
    """The mean cross-entropy (nats) of the learned tokens of these sequences, packed as one batch.

    lora: None for the root alone.
    """
    batch = pack([split.sequences[index] for index in indices], decoder.device)
    states = decoder.run_layers(
        split.states.of(indices, batch),
        batch.positions,
        DenseAttention(batch.layout),
        lora,
        range(split.states.first, decoder.architecture.layers),
    )
    logits = decoder.logits(states[batch.rows])
    return functional.cross_entropy(logits, batch.targets, ignore_index=IGNORE_INDEX)


@torch.no_grad()
def split_loss(
    decoder: Decoder, lora: LoraParameters | None, split: GenerativeSplit, budget: int, reporter: Reporter
) -> float:
    """The mean cross-entropy over all learned tokens of a split, in batches of `budget` tokens."""
    if lora is not None:
        lora.eval()
    losses, counts = [], []
    for indices in token_batches(split.lengths, budget):
        reporter.raise_if_cancelled()
        counts.append(sum(split.sequences[index].targets for index in indices))
        losses.append(completion_loss(decoder, lora, split, indices))
    # Read together: a GPU computes a batch while the next one is packed.
    means: list[float] = torch.stack(losses).tolist()
    return sum(count * mean for count, mean in zip(counts, means, strict=True)) / sum(counts)


@dataclass
class _State:
    """The complete epochs, the best of them with its weights, and the current one so far: its steps, its
    sequences, and the sum of its losses by token. untrained: the dev loss before the first step."""

    best: float = math.inf
    best_epoch: int = 0
    epochs: list[dict[str, float]] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    steps: int = 0
    all_steps: int = 0
    loss: float = 0.0
    untrained: float | None = None

    def is_finished(self, epochs: int, patience: int) -> bool:
        return len(self.epochs) >= epochs or len(self.epochs) - self.best_epoch >= patience

    def epoch_zero(self) -> list[dict[str, float]]:
        """The entry before those of the epochs, none if the loss before training is not known."""
        return [] if self.untrained is None else [{"epoch": 0, "dev_loss": round(self.untrained, 4)}]

    def to_json(self) -> dict[str, Any]:
        best = self.best if math.isfinite(self.best) else None
        return {
            "best": best,
            "best_epoch": self.best_epoch,
            "epochs": self.epochs,
            "steps": self.steps,
            "all_steps": self.all_steps,
            "loss": self.loss,
            "untrained": self.untrained,
        }

    @classmethod
    def from_json(cls, state: dict[str, Any], weights: dict[str, Tensor]) -> "_State":
        best = math.inf if state["best"] is None else state["best"]
        return cls(**{**state, "best": best}, weights=weights)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The peak learning rate, the maximum number of epochs, and how many epochs without a lower dev loss end
    the training. batch_tokens, batch_size: most tokens and most rows of a batch; None: no limit."""

    learning_rate: float
    epochs: int
    patience: int
    batch_tokens: int
    batch_size: int | None
    seed: int


class LoraTraining:
    """Trains `lora`, which ends with the weights of the epoch with the lowest dev loss.

    The learning rate falls with the share of the tokens of all epochs that were read.
    """

    def __init__(
        self,
        decoder: Decoder,
        lora: LoraParameters,
        splits: dict[str, GenerativeSplit],
        schedule: Schedule,
        reporter: Reporter,
        checkpoints: CheckpointStore,
    ) -> None:
        self._decoder, self._lora, self._splits, self._schedule = decoder, lora, splits, schedule
        self._reporter, self._checkpoints = reporter, checkpoints
        train = splits["train"]
        self._lengths, self._tokens = train.lengths, sum(train.lengths)
        self._targets = sum(one.targets for one in train.sequences)
        by_rows = math.ceil(len(self._lengths) / (schedule.batch_size or len(self._lengths)))
        steps = schedule.epochs * max(math.ceil(self._tokens / schedule.batch_tokens), by_rows)
        self._optimizer = Optimizer(
            [{"params": lora.parameters(), "lr": schedule.learning_rate}],
            steps=steps,
            warmup=round(WARMUP_SHARE * steps),
        )
        self._state = _State()

    def run(self) -> dict[str, Any]:
        """Train, from the checkpoint if there is one; report the epochs and the best of them.

        Epoch 0 is the dev loss before training, thus what the root, or the version before, knows already.
        """
        schedule = self._schedule
        self._reporter.start_stage(STAGE, schedule.epochs * len(self._lengths))
        self._resume()
        state = self._state
        if state.untrained is None and not state.all_steps:
            state.untrained = self._dev_loss()
            self._reporter.report(0, dev_loss=state.untrained)
        while not state.is_finished(schedule.epochs, schedule.patience):
            loss = self._epoch()
            dev = self._dev_loss()
            epoch = len(state.epochs) + 1
            state.epochs.append({"epoch": epoch, "loss": round(loss, 4), "dev_loss": round(dev, 4)})
            state.steps, state.loss = 0, 0.0
            self._reporter.report(epoch * len(self._lengths), loss=loss, dev_loss=dev)
            if dev < state.best:
                state.best, state.best_epoch = dev, epoch
                state.weights = copy.deepcopy(self._lora.state_dict())
            self._save()
        self._lora.load_state_dict(state.weights)
        return {
            "epochs": [*state.epoch_zero(), *state.epochs],
            "best_epoch": state.best_epoch,
            "dev": {"loss": round(state.best, 4)},
        }

    def _dev_loss(self) -> float:
        budget = self._schedule.batch_tokens
        return split_loss(self._decoder, self._lora, self._splits["dev"], budget, self._reporter)

    def _epoch(self) -> float:
        """Train the rest of the current epoch; return its mean loss by token."""
        self._lora.train()
        state, epoch = self._state, len(self._state.epochs) + 1
        seed, schedule = self._schedule.seed, self._schedule
        rows, tokens = (epoch - 1) * len(self._lengths), (epoch - 1) * self._tokens
        batches = token_batches(
            self._lengths, schedule.batch_tokens, seeded_rng(seed, epoch), rows=schedule.batch_size
        )
        for step, indices in enumerate(batches, start=1):
            progress = tokens / (schedule.epochs * self._tokens)
            rows, tokens = rows + len(indices), tokens + sum(self._lengths[index] for index in indices)
            if step <= state.steps:
                continue  # done before the job was stopped
            self._reporter.raise_if_cancelled()
            # Dropout uses torch's global generator: seeded per step, a repeated step draws the same.
            torch.manual_seed(seeded_generator(seed, epoch, step).initial_seed())
            loss = self._optimizer.train_step(
                indices, self._loss, weight_of=self._count_targets, progress=progress
            )
            state.loss += loss * sum(map(self._count_targets, indices))
            state.steps, state.all_steps = step, state.all_steps + 1
            self._reporter.report(rows, loss=loss)
            self._save()
        return state.loss / self._targets

    def _loss(self, indices: list[int]) -> Tensor:
        return completion_loss(self._decoder, self._lora, self._splits["train"], indices)

    def _count_targets(self, index: int) -> float:
        return float(self._splits["train"].sequences[index].targets)

    def _resume(self) -> None:
        checkpoint = self._checkpoints.load(STAGE)
        if checkpoint is None:
            return
        self._state = _State.from_json(checkpoint.state, with_prefix(checkpoint.tensors, "best."))
        self._lora.load_state_dict(with_prefix(checkpoint.tensors, "lora."))
        self._optimizer.load_state_dict(checkpoint.tensors, self._state.all_steps)

    def _save(self) -> None:
        if not self._checkpoints.is_due():
            return
        tensors = {f"lora.{name}": value for name, value in self._lora.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self._state.weights.items()}
        tensors |= self._optimizer.state_dict()
        self._checkpoints.save(STAGE, self._state.all_steps, tensors, self._state.to_json())

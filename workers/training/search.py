"""The settings of fine-tuning, and its search over learning rates and epochs (paper section 5.2)."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inference.hplm.pets.spec import PetSpec
from versiontree.job_settings import DEFAULT_EPOCHS, EncoderTrainingSettings
from workers.training.checkpoints import Checkpoint, CheckpointStore, seeded_generator, seeded_rng
from workers.training.lower_states import LowerMode
from workers.training.optimizer import Optimizer, with_prefix
from workers.training.prepared_split import Backbone, PreparedSplit, forward, predict
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks.base import IGNORE_INDEX, TaskKind

LEARNING_RATE_FACTORS = (1.0, 0.5, 2.0)


@dataclass(frozen=True, kw_only=True)
class FineTuneSettings(EncoderTrainingSettings):
    """epochs: None: `DEFAULT_EPOCHS`, or more to make `min_steps` steps of a small split, but at most
    `max_epochs`. lower_mode: see `lower_states.LOWER_MODES`.
    """

    device: str = "auto"
    precision: str = "auto"
    lower_mode: LowerMode = "table"

    @property
    def spec(self) -> PetSpec:
        """The parts of the PET."""
        return PetSpec(
            adapter=self.adapter,
            output_adapter=self.output_adapter,
            lora=self.lora,
            biases=self.biases,
            norms=self.norms,
            mask=self.mask / 100,
            diff=self.diff / 100,
        )

    def epoch_limit(self, steps: int) -> int:
        """The maximum number of epochs, of `steps` steps each."""
        if self.epochs is not None:
            return self.epochs
        return min(max(DEFAULT_EPOCHS, math.ceil(self.min_steps / steps)), self.max_epochs)

    @property
    def learning_rates(self) -> list[float]:
        """The learning rates to try."""
        return [self.learning_rate * factor for factor in LEARNING_RATE_FACTORS[: self.trials]]


STAGE = "fine-tune"
WARMUP_SHARE = 0.06
Weights = dict[str, Tensor]
Item = tuple[int, int]
"""The index of a training sequence, and which variant of its states to read."""


@dataclass
class _Trial:
    """The training with one learning rate: its complete epochs, the best of them, and the steps and summed
    loss of the current epoch."""

    learning_rate: float
    best: float = -math.inf
    best_epoch: int = 0
    epochs: list[dict[str, float]] = field(default_factory=list)
    weights: Weights = field(default_factory=dict)
    steps: int = 0
    loss: float = 0.0

    def is_finished(self, epochs: int, patience: int) -> bool:
        return len(self.epochs) >= epochs or self._epochs_without_gain() >= patience

    def _epochs_without_gain(self) -> int:
        found = [epoch["dev"] for epoch in self.epochs]
        return len(found) - 1 - found.index(max(found)) if found else 0

    def summary(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "dev": round(self.best, 4),
            "best_epoch": self.best_epoch,
            "epochs": self.epochs,
        }

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the weights; `_load_trials` reads it."""
        best = self.best if math.isfinite(self.best) else None
        return {**self.summary(), "best": best, "steps": self.steps, "loss": self.loss}


class LearningRateSearch:
    """Trains `model`, which ends with the weights that were best on the dev split.

    epochs: the maximum number of epochs; `patience` may stop earlier. stage: its name in progress reports and
    checkpoints.
    """

    def __init__(
        self,
        model: TaskModel,
        backbone: Backbone,
        splits: dict[str, PreparedSplit],
        kind: TaskKind,
        settings: FineTuneSettings,
        reporter: Reporter,
        checkpoints: CheckpointStore,
        stage: str = STAGE,
    ) -> None:
        self._stage = stage
        self._model, self._backbone, self._splits = model, backbone, splits
        self._kind, self._settings = kind, settings
        self._reporter, self._checkpoints = reporter, checkpoints
        train = splits["train"]
        self._targets = [
            kind.target(example, train.sequences[index])
            for example, indices in zip(train.examples, train.ranges, strict=True)
            for index in indices
        ]
        self._lengths = np.asarray([len(one) for one in train.sequences])
        self._steps = math.ceil(len(self._targets) / settings.batch_size)
        self.epochs = settings.epoch_limit(self._steps)
        self._class_weights = self._compute_class_weights()

    def run(self) -> dict[str, Any]:
        """Train with each learning rate; report the trials and the epochs of the best."""
        rates = self._settings.learning_rates
        self._reporter.start_stage(self._stage, len(rates) * self.epochs * self._steps)
        initial = copy.deepcopy(self._model.state_dict())
        checkpoint = self._checkpoints.load(self._stage)
        trials = _load_trials(checkpoint) if checkpoint is not None else []
        for number, rate in enumerate(rates):
            if number < len(trials) - 1:
                continue  # finished before the job was stopped
            if number == len(trials):
                trials.append(_Trial(rate))
                self._model.load_state_dict(initial)
                checkpoint = None
            self._train(trials, checkpoint)
        best = max(trials, key=lambda trial: trial.best)
        self._model.load_state_dict(best.weights)
        return {
            "epochs": best.epochs,
            "best_epoch": best.best_epoch,
            "learning_rate": best.learning_rate,
            "trials": [trial.summary() for trial in trials],
        }

    def _train(self, trials: list[_Trial], checkpoint: Checkpoint | None) -> None:
        """Run the last trial, from the start or from the checkpoint."""
        trial, total = trials[-1], self.epochs * self._steps
        optimizer = Optimizer(
            self._model.rates(trial.learning_rate),
            steps=total,
            warmup=round(WARMUP_SHARE * total),
        )
        if checkpoint is not None:
            self._model.load_state_dict(with_prefix(checkpoint.tensors, "model."))
            optimizer.load_state_dict(checkpoint.tensors, len(trial.epochs) * self._steps + trial.steps)
        while not trial.is_finished(self.epochs, self._settings.patience):
            loss = self._epoch(trials, optimizer)
            value = self._dev_metric()
            epoch = len(trial.epochs) + 1
            trial.epochs.append({"epoch": epoch, "loss": round(loss, 4), "dev": round(value, 4)})
            trial.steps, trial.loss = 0, 0.0
            self._reporter.report(self._steps_done(len(trials) - 1, epoch), loss=loss, dev=value)
            # Of equally good epochs the last: its learning rate was lower.
            if value >= trial.best:
                trial.best, trial.best_epoch = value, epoch
                trial.weights = copy.deepcopy(self._model.state_dict())
            self._save(trials, optimizer)

    def _epoch(self, trials: list[_Trial], optimizer: Optimizer) -> float:
        """Train the rest of the last trial's current epoch; return the mean loss of all its steps."""
        self._model.train()
        trial, number = trials[-1], len(trials) - 1
        epoch = len(trial.epochs) + 1
        done = self._steps_done(number, epoch - 1)
        for step, items in enumerate(self._batches(number, epoch), start=1):
            if step <= trial.steps:
                continue  # done before the job was stopped
            self._reporter.raise_if_cancelled()
            # Dropout uses torch's global generator: seeded per step, a repeated step draws the same.
            torch.manual_seed(seeded_generator(self._settings.seed, number, epoch, step).initial_seed())
            value = optimizer.train_step(items, self._loss, weight_of=self._known_targets)
            trial.steps, trial.loss = step, trial.loss + value
            self._reporter.report(done + step, loss=value)
            self._save(trials, optimizer)
        return trial.loss / self._steps

    def _loss(self, items: list[Item]) -> Tensor:
        """The mean over the known targets."""
        indices, variants = [index for index, _ in items], [variant for _, variant in items]
        outputs = forward(self._model, self._backbone, self._splits["train"], indices, variants)
        return self._kind.loss(outputs, [self._targets[index] for index in indices], self._class_weights)

    def _known_targets(self, item: Item) -> float:
        """The number of known targets of a sequence."""
        return float((self._targets[item[0]] != IGNORE_INDEX).sum())

    def _batches(self, trial: int, epoch: int) -> Iterator[list[Item]]:
        """All sequences in a new order, batched with others of similar length."""
        rng = seeded_rng(self._settings.seed, trial, epoch)
        order = np.argsort(self._lengths * rng.uniform(0.7, 1.4, len(self._lengths)), kind="stable")
        mixed = len(self._splits["train"].states) > 1
        full_context = rng.random(len(order)) < (self._settings.full_context_share if mixed else 0)
        starts = np.arange(0, len(order), self._settings.batch_size)
        for start in rng.permutation(starts):
            indices = order[start : start + self._settings.batch_size]
            yield list(zip(indices.tolist(), full_context[indices].astype(int).tolist(), strict=True))

    def _dev_metric(self) -> float:
        dev = self._splits["dev"]
        answers = predict(self._model, self._backbone, dev, self._kind, self._reporter)
        return float(self._kind.compute_metrics(dev.examples, answers, dev.examples)["value"])

    def _steps_done(self, trial: int, epochs: int) -> int:
        return (trial * self.epochs + epochs) * self._steps

    def _compute_class_weights(self) -> Tensor | None:
        """[C] inverse to the square root of each label's count, with a mean of 1; None for equal weights."""
        counts = self._kind.class_counts(self._splits["train"].examples)
        if not self._settings.balance_classes or not counts.keys() >= set(self._kind.labels):
            return None
        rarity = torch.tensor([counts[label] ** -0.5 for label in self._kind.labels])
        return (rarity / rarity.mean()).to(self._backbone.precision.device)

    def _save(self, trials: list[_Trial], optimizer: Optimizer) -> None:
        if not self._checkpoints.is_due():
            return
        tensors = {f"model.{name}": value for name, value in self._model.state_dict().items()}
        tensors |= optimizer.state_dict()
        for number, trial in enumerate(trials):
            tensors |= {f"best{number}.{name}": value for name, value in trial.weights.items()}
        done = self._steps_done(len(trials) - 1, len(trials[-1].epochs)) + trials[-1].steps
        self._checkpoints.save(self._stage, done, tensors, {"trials": [trial.state() for trial in trials]})


def _load_trials(checkpoint: Checkpoint) -> list[_Trial]:
    return [
        _Trial(
            state["learning_rate"],
            -math.inf if state["best"] is None else state["best"],
            state["best_epoch"],
            state["epochs"],
            with_prefix(checkpoint.tensors, f"best{number}."),
            state["steps"],
            state["loss"],
        )
        for number, state in enumerate(checkpoint.state["trials"])
    ]

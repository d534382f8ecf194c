"""Settings of a fine-tuning, and its search over learning rates and epochs (paper section 5.2)."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inference.hplm.pets import PetSpec
from workers.training.checkpoints import Checkpoints, Saved, draws
from workers.training.lower_states import LowerWay
from workers.training.optimizer import Optimiser
from workers.training.prepared_split import Backbone, Prepared, answer, outputs_of
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks.base import UNKNOWN, TaskKind

RATES_TRIED = (1.0, 0.5, 2.0)
USUAL_EPOCHS = 8


@dataclass(frozen=True, kw_only=True)
class FineTuneSettings:
    """adapter, output_adapter, lora, biases, norms: the parts of the PET (see `PetSpec`). pooling: what the
    head of a text reads. trials: learning rates tried, `learning_rate` itself first, then half and twice it.
    epochs: passes over the training split, exactly as many. None: `USUAL_EPOCHS`, or as many as it takes to
    make `min_steps` steps where the split is small, but at most `max_epochs`. patience: epochs without a
    better dev metric after which training stops; the learning rate falls to zero over all epochs, so late
    ones may gain most. mix_ratio: share of the training texts that are read through the original lower layers
    instead of the tables, so that one PET serves both. balance_classes: weight rare classes more in the loss.
    lower_mode: how the lower half of a text is made (see `lookup.WAYS`).
    """

    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    adapter: int = 0
    output_adapter: int = 0
    lora: int = 48
    biases: bool = True
    norms: bool = True
    pooling: str = "cls_mean"
    learning_rate: float = 1e-3
    trials: int = 1
    batch_size: int = 16
    epochs: int | None = None
    min_steps: int = 200
    max_epochs: int = 30
    patience: int = 8
    dropout: float = 0.1
    mix_ratio: float = 0.5
    balance_classes: bool = False
    lower_mode: LowerWay = "fallback"

    @property
    def spec(self) -> PetSpec:
        """The parts of the PET."""
        return PetSpec(
            adapter=self.adapter,
            output_adapter=self.output_adapter,
            lora=self.lora,
            biases=self.biases,
            norms=self.norms,
        )

    def epochs_of(self, steps: int) -> int:
        """How many epochs of so many steps are made at most."""
        if self.epochs is not None:
            return self.epochs
        return min(max(USUAL_EPOCHS, math.ceil(self.min_steps / steps)), self.max_epochs)

    @property
    def learning_rates(self) -> list[float]:
        """The learning rates to try."""
        return [self.learning_rate * factor for factor in RATES_TRIED[: self.trials]]


STAGE = "fine-tune"
WARMUP_SHARE = 0.06
Weights = dict[str, Tensor]
Item = tuple[int, int]
"""The number of a training sequence, and which of its states is read."""


@dataclass
class _Trial:
    """One learning rate: its whole epochs and the best of them, and the epoch under way (steps made, sum of
    their losses)."""

    learning_rate: float
    best: float = -math.inf
    best_epoch: int = 0
    epochs: list[dict[str, float]] = field(default_factory=list)
    weights: Weights = field(default_factory=dict)
    steps: int = 0
    loss: float = 0.0

    def over(self, epochs: int, patience: int) -> bool:
        return len(self.epochs) >= epochs or self._without_gain() >= patience

    def _without_gain(self) -> int:
        found = [epoch["dev"] for epoch in self.epochs]
        return len(found) - 1 - found.index(max(found)) if found else 0

    def told(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "dev": round(self.best, 4),
            "best_epoch": self.best_epoch,
            "epochs": self.epochs,
        }

    def kept(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the weights; `_restored` reads it."""
        best = self.best if math.isfinite(self.best) else None
        return {**self.told(), "best": best, "steps": self.steps, "loss": self.loss}


class Search:
    """Trains `model`, which ends with the weights that were best on the dev split. It makes
    `epochs` epochs, or fewer where `patience` ends it."""

    def __init__(
        self,
        model: TaskModel,
        backbone: Backbone,
        splits: dict[str, Prepared],
        kind: TaskKind,
        labels: list[str],
        settings: FineTuneSettings,
        reporter: Reporter,
        checkpoints: Checkpoints,
    ) -> None:
        self._model, self._backbone, self._splits = model, backbone, splits
        self._kind, self._labels, self._settings = kind, labels, settings
        self._reporter, self._checkpoints = reporter, checkpoints
        train = splits["train"]
        self._targets = [
            kind.target(example, train.sequences[at], labels)
            for example, span in zip(train.examples, train.spans, strict=True)
            for at in span
        ]
        self._lengths = np.asarray([len(one) for one in train.sequences])
        self._steps = math.ceil(len(self._targets) / settings.batch_size)
        self.epochs = settings.epochs_of(self._steps)
        self._weights = self._class_weights()

    def run(self) -> dict[str, Any]:
        """Train with each learning rate, and report the trials and the epochs of the best."""
        rates = self._settings.learning_rates
        self._reporter.stage(STAGE, len(rates) * self.epochs * self._steps)
        fresh = copy.deepcopy(self._model.state_dict())
        saved = self._checkpoints.load(STAGE)
        trials = _restored(saved) if saved is not None else []
        for number, rate in enumerate(rates):
            if number < len(trials) - 1:
                continue  # it was over before the job was stopped
            if number == len(trials):
                trials.append(_Trial(rate))
                self._model.load_state_dict(fresh)
                saved = None
            self._train(trials, saved)
        best = max(trials, key=lambda trial: trial.best)
        self._model.load_state_dict(best.weights)
        return {
            "epochs": best.epochs,
            "best_epoch": best.best_epoch,
            "learning_rate": best.learning_rate,
            "trials": [trial.told() for trial in trials],
        }

    def _train(self, trials: list[_Trial], saved: Saved | None) -> None:
        """The last trial, from its beginning or from where it was saved."""
        trial, total = trials[-1], self.epochs * self._steps
        optimiser = Optimiser(
            [{"params": self._model.parameters(), "lr": trial.learning_rate}],
            steps=total,
            warmup=round(WARMUP_SHARE * total),
        )
        if saved is not None:
            self._model.load_state_dict(_part(saved.tensors, "model."))
            optimiser.restore(saved.tensors, len(trial.epochs) * self._steps + trial.steps)
        while not trial.over(self.epochs, self._settings.patience):
            loss = self._epoch(trials, optimiser)
            value = self._dev_metric()
            epoch = len(trial.epochs) + 1
            trial.epochs.append({"epoch": epoch, "loss": round(loss, 4), "dev": round(value, 4)})
            trial.steps, trial.loss = 0, 0.0
            self._reporter.advance(self._done(len(trials) - 1, epoch), loss=loss, dev=value)
            # Of epochs that are equally good the last: its learning rate had come further down.
            if value >= trial.best:
                trial.best, trial.best_epoch = value, epoch
                trial.weights = copy.deepcopy(self._model.state_dict())
            self._save(trials, optimiser)

    def _epoch(self, trials: list[_Trial], optimiser: Optimiser) -> float:
        """The rest of the last trial's epoch; the mean loss of all its steps."""
        self._model.train()
        trial, number = trials[-1], len(trials) - 1
        epoch = len(trial.epochs) + 1
        done = self._done(number, epoch - 1)
        for step, items in enumerate(self._batches(number, epoch), start=1):
            if step <= trial.steps:
                continue  # it was made before the job was stopped
            self._reporter.check()
            # Dropout draws from torch's own generator: begun anew, a step taken again draws the same.
            torch.manual_seed(int(draws(self._settings.seed, number, epoch, step).integers(1 << 62)))
            value = optimiser.descend(items, self._loss, weight_of=self._counted)
            trial.steps, trial.loss = step, trial.loss + value
            self._reporter.advance(done + step, loss=value)
            self._save(trials, optimiser)
        return trial.loss / self._steps

    def _loss(self, items: list[Item]) -> Tensor:
        """The mean over what `_counted` counts."""
        numbers, ways = [number for number, _ in items], [way for _, way in items]
        outputs = outputs_of(self._model, self._backbone, self._splits["train"], numbers, ways)
        return self._kind.loss(outputs, [self._targets[n] for n in numbers], self._weights)

    def _counted(self, item: Item) -> float:
        """How many targets of a sequence are known."""
        return float((self._targets[item[0]] != UNKNOWN).sum())

    def _batches(self, trial: int, epoch: int) -> Iterator[list[Item]]:
        """Every sequence once, with others of about its length, in a new order each time."""
        rng = draws(self._settings.seed, trial, epoch)
        order = np.argsort(self._lengths * rng.uniform(0.7, 1.4, len(self._lengths)), kind="stable")
        several = len(self._splits["train"].states) > 1
        whole = rng.random(len(order)) < (self._settings.mix_ratio if several else 0)
        starts = np.arange(0, len(order), self._settings.batch_size)
        for start in rng.permutation(starts):
            numbers = order[start : start + self._settings.batch_size]
            yield list(zip(numbers.tolist(), whole[numbers].astype(int).tolist(), strict=True))

    def _dev_metric(self) -> float:
        dev = self._splits["dev"]
        found = answer(self._model, self._backbone, dev, self._kind, self._labels, self._reporter)
        return float(self._kind.scores(dev.examples, found, dev.examples)["value"])

    def _done(self, trial: int, epochs: int) -> int:
        return (trial * self.epochs + epochs) * self._steps

    def _class_weights(self) -> Tensor | None:
        """[C] inverse to the square root of how often each label occurs, 1 in the mean; None where all count
        alike."""
        counts = self._kind.counts(self._splits["train"].examples)
        if not self._settings.balance_classes or not counts.keys() >= set(self._labels):
            return None
        rarity = torch.tensor([counts[label] ** -0.5 for label in self._labels])
        return (rarity / rarity.mean()).to(self._backbone.arithmetic.device)

    def _save(self, trials: list[_Trial], optimiser: Optimiser) -> None:
        if not self._checkpoints.due():
            return
        tensors = {f"model.{name}": value for name, value in self._model.state_dict().items()}
        tensors |= optimiser.tensors()
        for number, trial in enumerate(trials):
            tensors |= {f"best{number}.{name}": value for name, value in trial.weights.items()}
        done = self._done(len(trials) - 1, len(trials[-1].epochs)) + trials[-1].steps
        self._checkpoints.save(STAGE, done, tensors, {"trials": [trial.kept() for trial in trials]})


def _restored(saved: Saved) -> list[_Trial]:
    return [
        _Trial(
            told["learning_rate"],
            -math.inf if told["best"] is None else told["best"],
            told["best_epoch"],
            told["epochs"],
            _part(saved.tensors, f"best{number}."),
            told["steps"],
            told["loss"],
        )
        for number, told in enumerate(saved.state["trials"])
    ]


def _part(tensors: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

"""Fine-tune an hPLM: adapters and head learn, everything around them stays as it is (paper section 5.2)."""

import copy
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from inference.hplm.adapters import AdapterWeights
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm, Task
from workers.training.datasets import UNKNOWN, DatasetFiles, label_set, read_examples
from workers.training.optimise import Optimiser
from workers.training.precision import arithmetic
from workers.training.prepared import Backbone, Prepared, logits_of, predict, prepare, scores
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tidy import written_whole

WARMUP_SHARE = 0.06


@dataclass(frozen=True, kw_only=True)
class FineTuneSettings:
    """minimum_steps: a small training split is seen more often than `epochs` times, until this many steps
    are made (but at most `most_epochs` times). patience: epochs without a better dev metric after which
    training stops.
    """

    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    adapter_size: int = 64
    learning_rate: float = 3e-3
    batch: int = 16
    epochs: int = 5
    minimum_steps: int = 200
    most_epochs: int = 20
    patience: int = 2


def fine_tune(
    *,
    root: Path,
    plots: list[Path],
    dataset: DatasetFiles,
    task: str,
    out: Path,
    settings: FineTuneSettings,
    reporter: Reporter,
    start_from: Path | None = None,
) -> dict[str, Any]:
    """Train on dataset.train, choose the epoch on dataset.dev, write the hPLM to `out`, report dev and test
    metrics.

    plots: folders of the tables to look up, nearest first, the root's last. start_from: folder of the
    version that this one updates. Raises HplmError: one_label, too_few_rows, malformed_row,
    training_diverged.
    """
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
    backbone = Backbone.open(root, plots, computing)
    examples = {name: read_examples(path, task) for name, path in asdict(dataset).items()}
    labels = label_set(examples["train"], task)
    splits = {name: prepare(rows, task, backbone, reporter) for name, rows in examples.items()}
    model = _new_model(backbone, settings, labels, start_from)
    report = _Training(model, backbone, splits, labels, task, settings, reporter).run()
    for name in ("dev", "test"):
        predicted = predict(model, backbone, splits[name], labels, reporter)
        report[name] = scores(splits[name], predicted, task, examples["train"])
    report |= {"seed": settings.seed, "settings": asdict(settings), "train_rows": len(examples["train"])}
    hplm = Hplm(cast("Task", task), tuple(labels), model.adapter_weights(), model.head_weights(), report)
    with written_whole(out):
        hplm.to("cpu", torch.float32).save(out)
    return report | {"labels": labels, "bytes": hplm.bytes}


def _new_model(
    backbone: Backbone, settings: FineTuneSettings, labels: list[str], start_from: Path | None
) -> TaskModel:
    config = backbone.root.config
    generator = torch.Generator().manual_seed(settings.seed)
    model = TaskModel(
        AdapterWeights.initial(config.upper, settings.adapter_size, config.hidden, generator=generator),
        Head.initial(len(labels), config.hidden, generator=generator),
    )
    if start_from is not None:
        model.take_over(Hplm.load(start_from), labels)
    return model.to(backbone.arithmetic.device)


class _Training:
    def __init__(
        self,
        model: TaskModel,
        backbone: Backbone,
        splits: dict[str, Prepared],
        labels: list[str],
        task: str,
        settings: FineTuneSettings,
        reporter: Reporter,
    ) -> None:
        self._model, self._backbone, self._splits = model, backbone, splits
        self._labels, self._task, self._settings, self._reporter = labels, task, settings, reporter
        self._train = splits["train"]
        self._targets = self._train.targets(labels)
        self._rng = np.random.default_rng(settings.seed)
        self._steps = math.ceil(len(self._targets) / settings.batch)
        wanted = max(settings.epochs, math.ceil(settings.minimum_steps / self._steps))
        self._epochs = min(wanted, max(settings.epochs, settings.most_epochs))

    def run(self) -> dict[str, Any]:
        """Train; the model ends with the weights of the epoch that was best on the dev split."""
        total = self._epochs * self._steps
        optimiser = Optimiser(
            [{"params": self._model.parameters(), "lr": self._settings.learning_rate}],
            steps=total,
            warmup=round(WARMUP_SHARE * total),
        )
        self._reporter.stage("fine-tune", total)
        best, best_epoch, best_weights = -1.0, 0, self._model.state_dict()
        history: list[dict[str, float]] = []
        for epoch in range(1, self._epochs + 1):
            loss = self._epoch(optimiser, (epoch - 1) * self._steps)
            value = self._dev_metric()
            history.append({"epoch": epoch, "loss": round(loss, 4), "dev": round(value, 4)})
            self._reporter.advance(epoch * self._steps, loss=loss, dev=value)
            if value > best:
                best, best_epoch = value, epoch
                best_weights = copy.deepcopy(self._model.state_dict())
            elif epoch - best_epoch >= self._settings.patience:
                break
        self._model.load_state_dict(best_weights)
        return {"epochs": history, "best_epoch": best_epoch}

    def _epoch(self, optimiser: Optimiser, done: int) -> float:
        total = 0.0
        for step, numbers in enumerate(self._batches(), start=1):
            self._reporter.check()
            target = torch.from_numpy(np.concatenate([self._targets[n] for n in numbers]))
            logits = logits_of(self._model, self._backbone, self._train, numbers)
            loss = torch.nn.functional.cross_entropy(logits, target.to(logits.device), ignore_index=UNKNOWN)
            value = optimiser.step(loss)
            total += value
            self._reporter.advance(done + step, loss=value)
        return total / self._steps

    def _batches(self) -> Iterator[list[int]]:
        """Every text once, with others of about its length, in a new order each time."""
        lengths = np.asarray([len(e.ids) for e in self._train.encoded])
        order = np.argsort(lengths * self._rng.uniform(0.7, 1.4, len(lengths)), kind="stable")
        starts = np.arange(0, len(order), self._settings.batch)
        for start in self._rng.permutation(starts):
            yield order[start : start + self._settings.batch].tolist()

    def _dev_metric(self) -> float:
        dev = self._splits["dev"]
        predicted = predict(self._model, self._backbone, dev, self._labels, self._reporter)
        return float(scores(dev, predicted, self._task, dev.examples)["value"])

"""Fine-tune an hPLM: a PET and a head learn, everything around them stays as it is (paper section 5.2)."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import torch

from inference.hplm.heads import Head, Pooling
from inference.hplm.hplm import Hplm, Task
from inference.hplm.pets import PetWeights, UpperShape
from workers.training.checkpoints import Checkpoints
from workers.training.datasets import DatasetFiles, Example, read_examples
from workers.training.disk import atomic_folders
from workers.training.precision import arithmetic
from workers.training.prepared_split import Backbone, Prepared, answer, imbalance, prepare, scores
from workers.training.progress import Reporter
from workers.training.search import FineTuneSettings, Search
from workers.training.task_model import TaskModel
from workers.training.tasks.base import TaskKind
from workers.training.tasks.registry import task_kind


def fine_tune(
    *,
    root: Path,
    plots: list[Path],
    dataset: DatasetFiles,
    task: str,
    out: Path,
    settings: FineTuneSettings,
    reporter: Reporter,
    lower: Path | None = None,
    start_from: Path | None = None,
    checkpoints: Checkpoints | None = None,
) -> dict[str, Any]:
    """Train on dataset.train, choose learning rate and epoch on dataset.dev, write the hPLM to `out`, report
    dev and test metrics.

    plots: folders of the tables to look up, nearest first, the root's last. lower: the local lower layers of
    the nearest version, where missing fragments are computed. start_from: folder of the version that this one
    updates. Raises HplmError: one_label, too_few_rows, malformed_row, training_diverged, out_of_memory,
    out_of_disk.
    """
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
    backbone = Backbone.open(root, plots, computing, lower)
    kind = task_kind(task)
    examples = {name: read_examples(path, task) for name, path in asdict(dataset).items()}
    labels = kind.labels(examples["train"])
    splits = _read_splits(examples, kind, backbone, settings, reporter, out.parent)
    model = _new_model(backbone, settings, labels, kind)
    report: dict[str, Any] = {}
    if start_from is not None:
        earlier = Hplm.load(start_from)
        report["taken_over"] = model.take_over(earlier, kind.resumed(earlier.head), labels)
    search = Search(model, backbone, splits, kind, labels, settings, reporter, checkpoints or Checkpoints())
    report |= search.run()
    for name in ("dev", "test"):
        found = answer(model, backbone, splits[name], kind, labels, reporter)
        report[name] = scores(splits[name], found, kind, examples["train"])
    report |= _about(splits["train"], kind, replace(settings, epochs=search.epochs))
    with atomic_folders(out):
        _trained(model, kind, labels, splits["train"], report).to("cpu", torch.float32).save(out)
    return report | {"labels": labels, "bytes": Hplm.load(out, dtype=torch.float16).bytes}


def _read_splits(
    examples: dict[str, list[Example]],
    kind: TaskKind,
    backbone: Backbone,
    settings: FineTuneSettings,
    reporter: Reporter,
    folder: Path,
) -> dict[str, Prepared]:
    """Every split with its lower half on the disk of `folder`; the training split's in a second way, too,
    where those are mixed."""
    mixed = settings.mix_ratio > 0 and settings.lower_mode != "whole"
    return {
        name: prepare(
            rows,
            kind,
            backbone,
            reporter,
            ways=[settings.lower_mode, "whole"] if mixed and name == "train" else [settings.lower_mode],
            folder=folder,
        )
        for name, rows in examples.items()
    }


def _new_model(
    backbone: Backbone, settings: FineTuneSettings, labels: list[str], kind: TaskKind
) -> TaskModel:
    config = backbone.root.config
    generator = torch.Generator().manual_seed(settings.seed)
    shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
    pooling = "token" if kind.per_token else cast("Pooling", settings.pooling)
    pet = PetWeights.initial(settings.spec, shape, generator=generator)
    head = Head.initial(len(labels), config.hidden, pooling=pooling, generator=generator)
    return TaskModel(pet, head, dropout=settings.dropout).to(backbone.arithmetic.device)


def _about(train: Prepared, kind: TaskKind, settings: FineTuneSettings) -> dict[str, Any]:
    """What was trained with and on."""
    counts = kind.counts(train.examples)
    return {
        "seed": settings.seed,
        "settings": asdict(settings),
        "train_rows": len(train.examples),
        "class_counts": counts,
        "imbalance": imbalance(counts),
        "truncated_share": train.truncated_share,
    }


def _trained(
    model: TaskModel, kind: TaskKind, labels: list[str], train: Prepared, report: dict[str, Any]
) -> Hplm:
    """What the model has become, with the report of its training."""
    return Hplm(
        cast("Task", kind.name),
        tuple(labels),
        model.trained_pet(),
        kind.stored(model.trained_head()),
        any(example.pair is not None for example in train.examples),
        about=report,
    )

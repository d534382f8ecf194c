"""Fine-tune an hPLM: train a PET and a head; everything around them stays frozen (paper section 5.2)."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import torch

from inference.cascade.dispatcher import Level
from inference.cascade.profile import CascadeProfile
from inference.hplm.heads import Head, Pooling
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import UpperShape
from inference.hplm.pets.weights import PetWeights
from inference.text.tasks import Task
from workers.training.cascade.costs import measure_costs
from workers.training.cascade.cross_fitting import cross_fit, may_gain_from_cross_fitting
from workers.training.cascade.outputs import OutputsByLevel, read_both_levels
from workers.training.cascade.selection import fit_profile, summary
from workers.training.checkpoints import CheckpointStore
from workers.training.datasets import DatasetFiles, read_examples
from workers.training.disk import atomic_folders
from workers.training.lower_states import LowerMode
from workers.training.precision import configure_torch
from workers.training.prepared_split import (
    Backbone,
    PreparedSplit,
    imbalance,
    prepare_split,
    split_metrics,
)
from workers.training.progress import Reporter
from workers.training.search import FineTuneSettings, LearningRateSearch
from workers.training.task_model import TaskModel
from workers.training.tasks import task_kind
from workers.training.tasks.base import TaskKind


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
    checkpoints: CheckpointStore | None = None,
) -> dict[str, Any]:
    """Train on dataset.train, choose learning rate and epoch on dataset.dev, fit the cascade on dataset.dev
    and where that has few rows by cross-fitting, write the hPLM to `out`, report dev metrics. dataset.test is
    not read: `evaluate` does.

    plots: folders of the lookup tables, nearest first, the root's last. lower: the lower layers of the
    nearest version. start_from: folder of the version that this one updates. Raises HplmError: one_label,
    too_few_rows, malformed_row, training_diverged, out_of_memory, out_of_disk.
    """
    precision = configure_torch(device=settings.device, precision=settings.precision, seed=settings.seed)
    backbone = Backbone.open(root, plots, precision, lower)
    examples = {
        name: read_examples(path, task) for name, path in (("train", dataset.train), ("dev", dataset.dev))
    }
    kind = task_kind(task)
    kind.fit(examples["train"])
    splits = {
        name: prepare_split(rows, kind, backbone, reporter, modes=_modes(name, settings), folder=out.parent)
        for name, rows in examples.items()
    }
    checkpoints = checkpoints or CheckpointStore()
    model = _new_model(backbone, settings, kind)
    report: dict[str, Any] = {}
    if start_from is not None:
        earlier = Hplm.load(start_from)
        report["warm_start"] = model.warm_start(earlier, kind.training_head(earlier.head), kind.labels)
    search = LearningRateSearch(model, backbone, splits, kind, settings, reporter, checkpoints)
    report |= search.run()
    # Half of the epochs: what a level loses hardly depends on them.
    epochs = math.ceil(search.epochs / 2)
    once = replace(settings, learning_rate=report["learning_rate"], epochs=epochs, trials=1)
    outputs, profile = _fit_cascade(model, backbone, splits, kind, once, reporter, checkpoints)
    answers = outputs.answers(Level[settings.lower_mode.upper()])
    report["dev"] = split_metrics(splits["dev"], answers, kind, examples["train"])
    report["cascade"] = summary(profile)
    report |= _training_report(splits["train"], kind, replace(settings, epochs=search.epochs))
    with atomic_folders(out):
        _to_hplm(model, kind, splits["train"], report).to("cpu", torch.float32).save(out)
        profile.save(out)
    return report | {"labels": kind.labels, "bytes": Hplm.load(out, dtype=torch.float16).bytes}


def _fit_cascade(
    model: TaskModel,
    backbone: Backbone,
    splits: dict[str, PreparedSplit],
    kind: TaskKind,
    settings: FineTuneSettings,
    reporter: Reporter,
    checkpoints: CheckpointStore,
) -> tuple[OutputsByLevel, CascadeProfile]:
    """The model's outputs for the dev split, and the profile by these and, if they are few, by
    cross-fitting with these settings."""
    outputs = read_both_levels(model, backbone, splits["dev"], kind, reporter)
    costs = measure_costs(model, backbone, splits["dev"])
    profile = fit_profile(outputs, costs)
    if may_gain_from_cross_fitting(profile, splits):
        folds = cross_fit(
            lambda: _new_model(backbone, settings, kind),
            backbone,
            splits,
            kind,
            settings,
            reporter,
            checkpoints,
        )
        profile = fit_profile(outputs, costs, folds)
    return outputs, profile


def _modes(split: str, settings: FineTuneSettings) -> list[LowerMode]:
    """The model may train on both levels; the cascade is fitted and measured on both."""
    other: LowerMode = "table" if settings.lower_mode == "full" else "full"
    mixed = settings.full_context_share > 0 and settings.lower_mode != "full"
    return [settings.lower_mode, other] if mixed or split != "train" else [settings.lower_mode]


def _new_model(backbone: Backbone, settings: FineTuneSettings, kind: TaskKind) -> TaskModel:
    config = backbone.root.config
    generator = torch.Generator().manual_seed(settings.seed)
    shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
    pooling = "token" if kind.per_token else cast("Pooling", settings.pooling)
    pet = PetWeights.initial(settings.spec, shape, generator=generator)
    if settings.mask:
        pet.begin(backbone.root.upper.weights_by_place())
    head = Head.initial(len(kind.labels), config.hidden, pooling=pooling, generator=generator)
    return TaskModel(pet, head, dropout=settings.dropout).to(backbone.precision.device)


def _training_report(train: PreparedSplit, kind: TaskKind, settings: FineTuneSettings) -> dict[str, Any]:
    counts = kind.class_counts(train.examples)
    return {
        "seed": settings.seed,
        "settings": asdict(settings),
        "train_rows": len(train.examples),
        "class_counts": counts,
        "imbalance": imbalance(counts),
        "truncated_share": train.truncated_share,
    }


def _to_hplm(model: TaskModel, kind: TaskKind, train: PreparedSplit, report: dict[str, Any]) -> Hplm:
    return Hplm(
        cast("Task", kind.name),
        tuple(kind.labels),
        model.trained_pet(),
        kind.serving_head(model.trained_head()),
        any(example.pair is not None for example in train.examples),
        metadata=report,
    )

"""The methods of the paper's table 3, all trained with the loop and defaults of the product's fine-tuning.

They differ in what is trained and in how the lower half of a text is computed.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.artifact_files import load_weights, read_weights, write_weights
from inference.hplm.encoder import FullLower, UpperLayers
from inference.hplm.heads import Head, Pooling, pool
from workers.training.checkpoints import CheckpointStore
from workers.training.datasets import DatasetFiles, Example, read_examples
from workers.training.precision import configure_torch
from workers.training.prepared_split import Backbone, PreparedSplit, predict, prepare_split
from workers.training.progress import Reporter
from workers.training.search import FineTuneSettings, LearningRateSearch
from workers.training.task_model import PADDING_LOGIT, TaskModel
from workers.training.tasks import task_kind
from workers.training.tasks.base import TaskKind


class FullModel(nn.Module):
    """A dedicated model: all its layers are trained, or only the upper ones where `lower` is None.

    A drop-in for `TaskModel`; it ignores the shared upper layers that `forward` gets.
    """

    def __init__(self, lower: FullLower | None, upper: UpperLayers, head: Head, dropout: float) -> None:
        super().__init__()
        self.lower = copy.deepcopy(lower)
        self.upper = copy.deepcopy(upper)
        self.requires_grad_(True)
        self.pooling = head.pooling
        self._dropout = dropout
        self.head = nn.ParameterDict({name: nn.Parameter(value) for name, value in head.tensors().items()})

    def forward(self, upper: UpperLayers, given: Tensor, mask: Tensor) -> Tensor:
        """Outputs of ids and token types [B, T, 2] (as float32), or of states [B, T, d] where it has no lower
        layers of its own."""
        states = given
        if self.lower is not None:
            ids, types = given.long().unbind(-1)
            states = self.lower(ids, mask, types)
        dropped = functional.dropout(states, self._dropout, self.training)
        last = self.upper(dropped, mask)
        with torch.autocast(given.device.type, enabled=False):
            features = functional.dropout(
                pool(last, mask, self.pooling, states), self._dropout, self.training
            )
            outputs = Head.from_tensors(dict(self.head.items()), self.pooling).apply(features)
        return outputs.masked_fill(~mask[:, :, None], PADDING_LOGIT) if self.pooling == "token" else outputs


class TokenSplit(PreparedSplit):
    """A split whose sequences are read as ids, for a model with its own lower layers."""

    def batch(self, indices: Sequence[int], variants: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Ids and token types [B, T, 2] float32 (exact below 2^24), and mask [B, T]."""
        del variants
        found = [self.sequences[index] for index in indices]
        tokens = [torch.from_numpy(np.stack([one.ids, one.types], axis=-1)) for one in found]
        mask = nn.utils.rnn.pad_sequence([torch.ones(len(one)) for one in found], batch_first=True)
        return nn.utils.rnn.pad_sequence(tokens, batch_first=True).float(), mask.bool()


Trained = Literal["all", "upper", "pet", "head"]


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A row of the table. trained: all layers, the upper ones, a PET, or the head alone. changes: of the
    defaults of `FineTuneSettings`."""

    name: str
    trained: Trained
    changes: Mapping[str, Any]

    def settings(self, seed: int, epochs: int | None = None) -> FineTuneSettings:
        """The settings of one training. epochs: if not the default."""
        return FineTuneSettings(seed=seed, epochs=epochs, **self.changes)


_FULL: Final = {"lower_mode": "full", "full_context_share": 0.0}
_HEAD: Final = {"lora": 0, "biases": False, "norms": False}
HBERT = Method("hBERT", "pet", {})
DEDICATED = Method("dedicated", "all", {**_FULL, "learning_rate": 1e-4})
ADAPTER = Method("hBERT-adapter", "pet", _FULL)
PLOT = Method("hBERT-PLOT", "upper", {"full_context_share": 0.0, "learning_rate": 3e-4})
SHARED = Method("shared", "head", {**_FULL, **_HEAD, "learning_rate": 5e-3})
MODEL_FILE = "model.safetensors"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a method is trained on."""

    root: Path
    lower: Path
    plots: list[Path]
    files: DatasetFiles
    task: str


def train_full(
    method: Method,
    inputs: Inputs,
    settings: FineTuneSettings,
    reporter: Reporter,
    *,
    out: Path,
    checkpoints: CheckpointStore | None = None,
) -> dict[str, Any]:
    """Train a method without a PET and write its weights into the new folder `out`.

    Returns {dev, learning_rate, best_epoch, epochs, bytes}. The test file is not read.
    """
    task = _FullTask.open(method, inputs, settings)
    splits = {name: task.split(name, reporter) for name in ("train", "dev")}
    report = LearningRateSearch(
        cast("TaskModel", task.model),
        task.backbone,
        splits,
        task.kind,
        settings,
        reporter,
        checkpoints or CheckpointStore(),
    ).run()
    out.mkdir(parents=True)
    write_weights(out / MODEL_FILE, task.model.state_dict())
    return {
        "dev": task.metric(splits["dev"], reporter),
        "learning_rate": report["learning_rate"],
        "best_epoch": report["best_epoch"],
        "epochs": len(report["epochs"]),
        "bytes": 4 * sum(parameter.numel() for parameter in task.model.parameters()),
    }


def evaluate_full(
    method: Method, inputs: Inputs, settings: FineTuneSettings, reporter: Reporter, *, model: Path
) -> float:
    """The test metric of what `train_full` wrote with the same method, inputs and settings."""
    task = _FullTask.open(method, inputs, settings)
    load_weights(task.model, read_weights(model / MODEL_FILE), MODEL_FILE)
    return task.metric(task.split("test", reporter), reporter)


@dataclass(frozen=True)
class _FullTask:
    """A model without a PET, and what its splits are read with."""

    method: Method
    settings: FineTuneSettings
    inputs: Inputs
    backbone: Backbone
    kind: TaskKind
    train: list[Example]
    model: FullModel

    @classmethod
    def open(cls, method: Method, inputs: Inputs, settings: FineTuneSettings) -> "_FullTask":
        precision = configure_torch(device=settings.device, precision=settings.precision, seed=settings.seed)
        backbone = Backbone.open(inputs.root, inputs.plots, precision, inputs.lower)
        train = read_examples(inputs.files.train, inputs.task)
        kind = task_kind(inputs.task)
        kind.fit(train)
        pooling = "token" if kind.per_token else cast("Pooling", settings.pooling)
        generator = torch.Generator().manual_seed(settings.seed)
        hidden = backbone.root.config.hidden
        head = Head.initial(len(kind.labels), hidden, pooling=pooling, generator=generator)
        lower = backbone.root.checkpoint_lower() if method.trained == "all" else None
        model = FullModel(lower, backbone.root.upper, head, settings.dropout).to(precision.device)
        return cls(method, settings, inputs, backbone, kind, train, model)

    def split(self, name: str, reporter: Reporter) -> PreparedSplit:
        """The split "train", "dev" or "test"."""
        rows = self.train
        if name != "train":
            rows = read_examples(getattr(self.inputs.files, name), self.inputs.task)
        if self.method.trained != "all":
            return prepare_split(rows, self.kind, self.backbone, reporter, modes=[self.settings.lower_mode])
        found = prepare_split(rows, self.kind, self.backbone, reporter, modes=[])
        return TokenSplit(found.examples, found.sequences, found.ranges)

    def metric(self, split: PreparedSplit, reporter: Reporter) -> float:
        """The task's metric of the model's answers."""
        answers = predict(cast("TaskModel", self.model), self.backbone, split, self.kind, reporter)
        return float(self.kind.compute_metrics(split.examples, answers, self.train)["value"])

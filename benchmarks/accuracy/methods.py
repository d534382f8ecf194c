"""The methods of the paper's table 3, all trained with the same loop, batches, epochs and search.

They differ in what is trained and in how the lower half of a text is computed.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.encoder import FullLower, UpperLayers
from inference.hplm.heads import Head, Pooling, pool
from workers.training.checkpoints import CheckpointStore
from workers.training.datasets import DatasetFiles, read_examples
from workers.training.lower_states import LowerMode
from workers.training.precision import configure_torch
from workers.training.prepared_split import Backbone, PreparedSplit, predict, prepare_split
from workers.training.progress import Reporter
from workers.training.search import FineTuneSettings, LearningRateSearch
from workers.training.task_model import PADDING_LOGIT, TaskModel
from workers.training.tasks import task_kind


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
        """Outputs of ids [B, T, 1] (as float32), or of states [B, T, d] where the lower half is not its
        own."""
        states = given if self.lower is None else self.lower(given[:, :, 0].long(), mask)
        last = self.upper(functional.dropout(states, self._dropout, self.training), mask)
        with torch.autocast(given.device.type, enabled=False):
            features = functional.dropout(pool(last, mask, self.pooling), self._dropout, self.training)
            outputs = Head.from_tensors(dict(self.head.items()), self.pooling).apply(features)
        return outputs.masked_fill(~mask[:, :, None], PADDING_LOGIT) if self.pooling == "token" else outputs


class TokenSplit(PreparedSplit):
    """A split whose sequences are read as ids, for a model with its own lower layers."""

    def batch(self, indices: Sequence[int], variants: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Ids [B, T, 1] float32 (exact below 2^24) and mask [B, T]."""
        del variants
        sequences = [torch.from_numpy(self.sequences[index].ids) for index in indices]
        mask = nn.utils.rnn.pad_sequence([torch.ones(len(ids)) for ids in sequences], batch_first=True)
        return nn.utils.rnn.pad_sequence(sequences, batch_first=True)[:, :, None].float(), mask.bool()


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the table. trained: "all" layers, the "upper" ones, a "pet", or the "head" alone. rate:
    the learning rate tried first."""

    name: str
    trained: str
    lower_mode: LowerMode
    rate: float
    full_context_share: float = 0.0


DEDICATED = Method("dedicated", "all", "full", 2e-4)
UPPER = Method("upper layers", "upper", "full", 3e-4)
SHARED = Method("shared", "head", "full", 5e-3)
ADAPTER = Method("hBERT-adapter", "pet", "full", 1e-3)
PLOT = Method("hBERT-PLOT", "upper", "table", 3e-4)
HBERT = Method("hBERT", "pet", "table", 1e-3, full_context_share=0.5)
METHODS = {method.name: method for method in (DEDICATED, UPPER, SHARED, ADAPTER, PLOT, HBERT)}


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a method is trained on."""

    root: Path
    lower: Path
    plots: list[Path]
    files: DatasetFiles
    task: str


def train_full(
    method: Method, inputs: Inputs, settings: FineTuneSettings, reporter: Reporter
) -> dict[str, Any]:
    """Train a method without a PET; returns {dev, test, learning_rate, trials, bytes}."""
    precision = configure_torch(device=settings.device, precision=settings.precision, seed=settings.seed)
    backbone = Backbone.open(inputs.root, inputs.plots, precision, inputs.lower)
    kind = task_kind(inputs.task)
    examples = {
        name: read_examples(getattr(inputs.files, name), inputs.task) for name in ("train", "dev", "test")
    }
    kind.fit(examples["train"])
    all_layers = method.trained == "all"
    splits = {
        name: prepare_split(rows, kind, backbone, reporter, modes=[] if all_layers else [method.lower_mode])
        for name, rows in examples.items()
    }
    if all_layers:
        splits = {name: TokenSplit(s.examples, s.sequences, s.ranges) for name, s in splits.items()}
    pooling = "token" if kind.per_token else cast("Pooling", settings.pooling)
    generator = torch.Generator().manual_seed(settings.seed)
    head = Head.initial(len(kind.labels), backbone.root.config.hidden, pooling=pooling, generator=generator)
    lower = backbone.root.checkpoint_lower() if all_layers else None
    model = FullModel(lower, backbone.root.upper, head, settings.dropout).to(precision.device)
    as_task_model = cast("TaskModel", model)
    report = LearningRateSearch(
        as_task_model,
        backbone,
        splits,
        kind,
        replace(settings, full_context_share=0.0),
        reporter,
        CheckpointStore(),
    ).run()
    values = {}
    for name in ("dev", "test"):
        answers = predict(as_task_model, backbone, splits[name], kind, reporter)
        values[name] = float(kind.compute_metrics(examples[name], answers, examples["train"])["value"])
    return {
        **values,
        "learning_rate": report["learning_rate"],
        "trials": report["trials"],
        "bytes": 4 * sum(parameter.numel() for parameter in model.parameters()),
    }

"""The methods of the paper's table 3, trained with equal care: the same loop, batches, epochs and search.

What differs is what may learn, and how the lower half of a text is made.
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
from workers.training.checkpoints import Checkpoints
from workers.training.datasets import DatasetFiles, read_examples
from workers.training.lower_states import LowerWay
from workers.training.precision import arithmetic
from workers.training.prepared_split import Backbone, Prepared, answer, prepare
from workers.training.progress import Reporter
from workers.training.search import FineTuneSettings, Search
from workers.training.task_model import NEVER, TaskModel
from workers.training.tasks.registry import task_kind


class WholeModel(nn.Module):
    """A model of its own: all its layers learn, or only the upper ones where `lower` is None.

    Takes the place of a `TaskModel`; the shared upper layers it is given are not used.
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
        return outputs.masked_fill(~mask[:, :, None], NEVER) if self.pooling == "token" else outputs


class Tokens(Prepared):
    """A split whose sequences are read as ids, for a model with lower layers of its own."""

    def batch(self, numbers: Sequence[int], ways: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Ids [B, T, 1] float32 (exact below 2^24) and mask [B, T]."""
        del ways
        sequences = [torch.from_numpy(self.sequences[number].ids) for number in numbers]
        mask = nn.utils.rnn.pad_sequence([torch.ones(len(ids)) for ids in sequences], batch_first=True)
        return nn.utils.rnn.pad_sequence(sequences, batch_first=True)[:, :, None].float(), mask.bool()


@dataclass(frozen=True, slots=True)
class Method:
    """A row of the table. learns: "all" layers, the "upper" ones, a "pet" or the "head" alone; lower_mode:
    how the lower half of a text is made. rate: the learning rate tried first."""

    name: str
    learns: str
    lower_mode: LowerWay
    rate: float
    mix_ratio: float = 0.0


DEDICATED = Method("dedicated", "all", "whole", 2e-4)
UPPER = Method("upper layers", "upper", "whole", 3e-4)
SHARED = Method("shared", "head", "whole", 5e-3)
ADAPTER = Method("hBERT-adapter", "pet", "whole", 1e-3)
PLOT = Method("hBERT-PLOT", "upper", "compute", 3e-4)
HBERT = Method("hBERT", "pet", "fallback", 1e-3, mix_ratio=0.5)
METHODS = {method.name: method for method in (DEDICATED, UPPER, SHARED, ADAPTER, PLOT, HBERT)}


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a method is trained on."""

    root: Path
    lower: Path
    plots: list[Path]
    files: DatasetFiles
    task: str


def train_whole(
    method: Method, inputs: Inputs, settings: FineTuneSettings, reporter: Reporter
) -> dict[str, Any]:
    """Train a method whose layers learn; {dev, test, learning_rate, epochs, parameters}."""
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
    backbone = Backbone.open(inputs.root, inputs.plots, computing, inputs.lower)
    kind = task_kind(inputs.task)
    examples = {
        name: read_examples(getattr(inputs.files, name), inputs.task) for name in ("train", "dev", "test")
    }
    labels = kind.labels(examples["train"])
    every = method.learns == "all"
    splits = {
        name: prepare(rows, kind, backbone, reporter, ways=[] if every else [method.lower_mode])
        for name, rows in examples.items()
    }
    if every:
        splits = {name: Tokens(s.examples, s.sequences, s.spans) for name, s in splits.items()}
    pooling = "token" if kind.per_token else cast("Pooling", settings.pooling)
    generator = torch.Generator().manual_seed(settings.seed)
    head = Head.initial(len(labels), backbone.root.config.hidden, pooling=pooling, generator=generator)
    lower = backbone.root.checkpoint_lower() if every else None
    model = WholeModel(lower, backbone.root.upper, head, settings.dropout).to(computing.device)
    as_task_model = cast("TaskModel", model)
    report = Search(
        as_task_model,
        backbone,
        splits,
        kind,
        labels,
        replace(settings, mix_ratio=0.0),
        reporter,
        Checkpoints(),
    ).run()
    values = {}
    for name in ("dev", "test"):
        found = answer(as_task_model, backbone, splits[name], kind, labels, reporter)
        values[name] = float(kind.scores(examples[name], found, examples["train"])["value"])
    return {
        **values,
        "learning_rate": report["learning_rate"],
        "trials": report["trials"],
        "bytes": 4 * sum(parameter.numel() for parameter in model.parameters()),
    }

"""A dataset split with its states at the cut, and running a task model on it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.plot_lookup import LowerLayers
from inference.hplm.root import Root
from inference.hplm.upload import Upload
from inference.text.tokenization import Encoding
from workers.training.datasets import Example
from workers.training.lower_states import LowerMode, LowerStates, compute_states
from workers.training.precision import Precision
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks.base import ExampleOutputs, Outputs, TaskKind

SEQUENCES_PER_BATCH = 64
# Padding to a multiple of this keeps the number of shapes small: each is compiled once.
PAD_TO_MULTIPLE_OF = 16


@dataclass(frozen=True)
class Backbone:
    """A root, its lookup tables, and the lower layers with full context."""

    root: Root
    lower_layers: LowerLayers
    precision: Precision

    @classmethod
    def open(
        cls,
        root: Path,
        plots: Sequence[Path],
        precision: Precision,
        lower: Path | None = None,
    ) -> "Backbone":
        """Load the root and map its tables, nearest first. lower: the lower layers of the nearest version;
        without it, or without full context among them, those with full context are the root's."""
        loaded = Root.load(root, precision.device)
        chain = PlotChain([PlotTable.open(plot) for plot in plots])
        lower_layers = LowerLayers(
            chain, loaded.full_lower(lower), chain.composition.to(precision.device), precision.device
        )
        return cls(loaded, lower_layers, precision)


@dataclass(frozen=True)
class PreparedSplit:
    """The examples of a split, their encoded sequences, and the states at the cut in one or more variants.

    ranges[k]: the indices of example k's sequences. states[v]: as read in modes[v].
    """

    examples: list[Example]
    sequences: list[Encoding]
    ranges: list[range]
    states: tuple[LowerStates, ...] = ()
    modes: tuple[LowerMode, ...] = ()

    @property
    def truncated_share(self) -> float:
        """The share of examples that were truncated."""
        return sum(any(self.sequences[i].truncated for i in r) for r in self.ranges) / len(self.ranges)

    def subset(self, examples: Sequence[int]) -> "PreparedSplit":
        """The split of some of its examples. Their states stay where they are."""
        ranges = [self.ranges[example] for example in examples]
        chosen = [index for one in ranges for index in one]
        ends = np.cumsum([0, *map(len, ranges)]).tolist()
        return replace(
            self,
            examples=[self.examples[example] for example in examples],
            sequences=[self.sequences[index] for index in chosen],
            ranges=list(starmap(range, pairwise(ends))),
            states=tuple(one.subset(chosen) for one in self.states),
        )

    def batch(self, indices: Sequence[int], variants: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Padded states [B, T, d] float32 and mask [B, T] bool of these sequences.

        variants: for each sequence which of `states` to read; the first by default.
        """
        chosen = [0] * len(indices) if variants is None else variants
        rows = [self.states[variant].sequence(index) for index, variant in zip(indices, chosen, strict=True)]
        longest = -(-max(map(len, rows)) // PAD_TO_MULTIPLE_OF) * PAD_TO_MULTIPLE_OF
        states = torch.zeros(len(rows), longest, rows[0].shape[1])
        for number, row in enumerate(rows):
            states[number, : len(row)] = torch.from_numpy(np.array(row)).float()
        lengths = torch.tensor([len(row) for row in rows])
        return states, torch.arange(longest)[None, :] < lengths[:, None]


def prepare_split(
    examples: list[Example],
    kind: TaskKind,
    backbone: Backbone,
    reporter: Reporter,
    *,
    modes: Sequence[LowerMode] = ("table",),
    folder: Path | None = None,
) -> PreparedSplit:
    """Tokenise the examples and compute their states at the cut in each of these modes.

    folder: on whose disk the states lie (None: that of temporary files).
    """
    sequences: list[Encoding] = []
    ranges: list[range] = []
    for number, example in enumerate(examples):
        if number % SEQUENCES_PER_BATCH == 0:
            reporter.raise_if_cancelled()
        encoded = kind.encode(example, backbone.root.tokenizer)
        ranges.append(range(len(sequences), len(sequences) + len(encoded)))
        sequences += encoded
    with backbone.precision.autocast():
        states = tuple(
            compute_states(sequences, backbone.lower_layers, mode, reporter, folder) for mode in modes
        )
    return PreparedSplit(examples, sequences, ranges, states, tuple(modes))


def forward(
    model: TaskModel,
    backbone: Backbone,
    split: PreparedSplit,
    indices: Sequence[int],
    variants: Sequence[int] | None = None,
) -> Tensor:
    """The head's outputs [B, C] or [B, T, C] float32 for these sequences."""
    upload = Upload(backbone.precision.device)
    states, mask = (upload.add(part.numpy()) for part in split.batch(indices, variants))
    with backbone.precision.autocast():
        outputs: Tensor = model(backbone.root.upper, states.tensor, mask.tensor)
    return outputs


@torch.no_grad()
def compute_outputs(
    model: TaskModel,
    backbone: Backbone,
    split: PreparedSplit,
    kind: TaskKind,
    reporter: Reporter,
    variant: int = 0,
) -> list[ExampleOutputs]:
    """The model's outputs for each example of the split. variant: which of its states to read."""
    model.eval()
    outputs: list[Outputs] = [np.empty(0)] * len(split.sequences)
    for indices in _batches(split, reporter):
        rows = forward(model, backbone, split, indices, [variant] * len(indices)).cpu().numpy()
        for row, index in zip(rows, indices, strict=True):
            outputs[index] = row[: len(split.sequences[index])] if kind.per_token else row
    return [
        ExampleOutputs(example, split.sequences[r.start : r.stop], outputs[r.start : r.stop])
        for example, r in zip(split.examples, split.ranges, strict=True)
    ]


@torch.no_grad()
def compute_features(
    model: TaskModel, backbone: Backbone, split: PreparedSplit, kind: TaskKind, reporter: Reporter
) -> list[npt.NDArray[np.float32]]:
    """What the model's head reads of each sequence: [w], or [T, w] of its tokens."""
    model.eval()
    features: list[npt.NDArray[np.float32]] = [np.empty(0, np.float32)] * len(split.sequences)
    for indices in _batches(split, reporter):
        upload = Upload(backbone.precision.device)
        states, mask = (upload.add(part.numpy()) for part in split.batch(indices))
        with backbone.precision.autocast():
            found = model.features(backbone.root.upper, states.tensor, mask.tensor)
        for row, index in zip(found.cpu().numpy(), indices, strict=True):
            features[index] = row[: len(split.sequences[index])] if kind.per_token else row
    return features


def _batches(split: PreparedSplit, reporter: Reporter) -> Iterator[list[int]]:
    """The indices of all sequences, those of similar length together."""
    order = np.argsort([len(one) for one in split.sequences], kind="stable").tolist()
    for start in range(0, len(order), SEQUENCES_PER_BATCH):
        reporter.raise_if_cancelled()
        yield order[start : start + SEQUENCES_PER_BATCH]


def predict(
    model: TaskModel, backbone: Backbone, split: PreparedSplit, kind: TaskKind, reporter: Reporter
) -> list[Any]:
    """The model's answer to each example of the split."""
    return [kind.predict(outputs) for outputs in compute_outputs(model, backbone, split, kind, reporter)]


def split_metrics(
    split: PreparedSplit, answers: list[Any], kind: TaskKind, train: list[Example]
) -> dict[str, Any]:
    """The task's metrics, those of baselines fitted on `train`, and how the texts were read."""
    counts = kind.class_counts(split.examples)
    return {
        **kind.compute_metrics(split.examples, answers, train),
        "rows": len(split.examples),
        "truncated_share": split.truncated_share,
        "plot_hits": split.states[0].shares,
        "class_counts": counts,
        "imbalance": imbalance(counts),
    }


def imbalance(counts: Mapping[str, int]) -> float:
    """The most frequent label's count over that of the rarest that occurs; 1 where none does."""
    occurring = [count for count in counts.values() if count]
    return max(occurring) / min(occurring) if occurring else 1.0

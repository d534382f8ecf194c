"""A split ready for the upper layers, and what a task model answers on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inference.hplm.local_lower import LocalLower
from inference.hplm.miss_plan import LevelErrors
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.plot_lookup import LowerLayers
from inference.hplm.root import Root
from inference.hplm.tokenization import Encoding
from workers.training.datasets import Example
from workers.training.lower_states import LowerStates, LowerWay, lower_states
from workers.training.precision import Arithmetic
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks.base import Judged, Outputs, TaskKind

SEQUENCES_PER_CHUNK = 64
# Shapes that recur: what is compiled for a shape is compiled once.
LENGTHS_APART = 16


@dataclass(frozen=True)
class Backbone:
    """A root with the tables of one branch of its tree, nearest first, and the layers that could compute what
    they lack."""

    root: Root
    half: LowerLayers
    arithmetic: Arithmetic

    @classmethod
    def open(
        cls, root: Path, plots: Sequence[Path], arithmetic: Arithmetic, lower: Path | None = None
    ) -> "Backbone":
        """Read the root and map the tables. lower: the local lower layers of the nearest version; without
        them fragments that the tables lack cannot be computed."""
        loaded = Root.load(root, arithmetic.device)
        local = None if lower is None else LocalLower.load(lower, arithmetic.device)
        half = LowerLayers(
            PlotChain([PlotTable.open(plot) for plot in plots]),
            local,
            loaded.checkpoint_lower(),
            LevelErrors.from_reports(loaded.config.report),
            device=arithmetic.device,
        )
        return cls(loaded, half, arithmetic)


@dataclass(frozen=True)
class Prepared:
    """Examples of a split, the sequences that the model reads of them, and the states of these, in one way or
    in several. spans[k]: the sequences of example k."""

    examples: list[Example]
    sequences: list[Encoding]
    spans: list[range]
    states: tuple[LowerStates, ...] = field(default=())

    @property
    def truncated_share(self) -> float:
        """Of the examples, those that were not read to their end."""
        cut = sum(any(self.sequences[at].truncated for at in span) for span in self.spans)
        return cut / len(self.spans)

    def batch(self, numbers: Sequence[int], ways: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """States [B, T, d] float32, zero at padding, and mask [B, T] bool, of these sequences; `ways` says
        for each which of `states` (default: the first)."""
        chosen = [0] * len(numbers) if ways is None else ways
        pieces = [self.states[way].of(number) for number, way in zip(numbers, chosen, strict=True)]
        longest = max(map(len, pieces))
        longest = -(-longest // LENGTHS_APART) * LENGTHS_APART
        states = torch.zeros(len(pieces), longest, pieces[0].shape[1])
        for row, piece in enumerate(pieces):
            states[row, : len(piece)] = torch.from_numpy(np.array(piece)).float()
        lengths = torch.tensor([len(piece) for piece in pieces])
        return states, torch.arange(longest)[None, :] < lengths[:, None]


def prepare(
    examples: list[Example],
    kind: TaskKind,
    backbone: Backbone,
    reporter: Reporter,
    *,
    ways: Sequence[LowerWay] = ("fallback",),
    tolerance: float | None = None,
    folder: Path | None = None,
) -> Prepared:
    """Tokenise, and make the lower half in each of these ways. folder: on whose disk it lies (None: that of
    temporary files)."""
    sequences: list[Encoding] = []
    spans: list[range] = []
    for number, example in enumerate(examples):
        if number % SEQUENCES_PER_CHUNK == 0:
            reporter.check()
        read = kind.encode(example, backbone.root.tokenizer)
        spans.append(range(len(sequences), len(sequences) + len(read)))
        sequences += read
    with backbone.arithmetic.autocast():
        states = tuple(
            lower_states(sequences, backbone.half, way, tolerance, reporter, folder) for way in ways
        )
    return Prepared(examples, sequences, spans, states)


def outputs_of(
    model: TaskModel,
    backbone: Backbone,
    split: Prepared,
    numbers: Sequence[int],
    ways: Sequence[int] | None = None,
) -> Tensor:
    """Outputs [B, C] or [B, T, C] float32 of these sequences."""
    device = backbone.arithmetic.device
    states, mask = split.batch(numbers, ways)
    with backbone.arithmetic.autocast():
        outputs: Tensor = model(backbone.root.upper, states.to(device), mask.to(device))
    return outputs


def answer(
    model: TaskModel,
    backbone: Backbone,
    split: Prepared,
    kind: TaskKind,
    labels: Sequence[str],
    reporter: Reporter,
    *,
    threshold: float = 0.5,
) -> list[Any]:
    """What the model answers to each example."""
    return decoded(every_output(model, backbone, split, kind, reporter), split, kind, labels, threshold)


@torch.no_grad()
def every_output(
    model: TaskModel, backbone: Backbone, split: Prepared, kind: TaskKind, reporter: Reporter
) -> list[Outputs]:
    """The outputs of each sequence."""
    model.eval()
    outputs: list[Outputs] = [np.empty(0)] * len(split.sequences)
    order = np.argsort([len(one) for one in split.sequences], kind="stable").tolist()
    for start in range(0, len(order), SEQUENCES_PER_CHUNK):
        reporter.check()
        numbers = order[start : start + SEQUENCES_PER_CHUNK]
        found = outputs_of(model, backbone, split, numbers).cpu().numpy()
        for row, number in enumerate(numbers):
            outputs[number] = found[row, : len(split.sequences[number])] if kind.per_token else found[row]
    return outputs


def decoded(
    outputs: Sequence[Outputs], split: Prepared, kind: TaskKind, labels: Sequence[str], threshold: float
) -> list[Any]:
    """What these outputs of its sequences answer to each example."""
    return [
        kind.decode(
            example,
            [outputs[at] for at in span],
            [split.sequences[at] for at in span],
            labels,
            threshold,
        )
        for example, span in zip(split.examples, split.spans, strict=True)
    ]


def judged(
    outputs: Sequence[Outputs],
    answers: Sequence[Any],
    split: Prepared,
    kind: TaskKind,
    labels: Sequence[str],
) -> list[Judged]:
    """These answers, that were decoded from the outputs, beside the expected ones."""
    return [
        kind.judged(
            example,
            found,
            [outputs[at] for at in span],
            [split.sequences[at] for at in span],
            labels,
        )
        for example, found, span in zip(split.examples, answers, split.spans, strict=True)
    ]


def scores(split: Prepared, answers: list[Any], kind: TaskKind, seen: list[Example]) -> dict[str, Any]:
    """The task's metric, with the trivial answers learnt on `seen` beside it, and how the texts were read."""
    counts = kind.counts(split.examples)
    return {
        **kind.scores(split.examples, answers, seen),
        "rows": len(split.examples),
        "truncated_share": split.truncated_share,
        "plot_hits": split.states[0].shares,
        "class_counts": counts,
        "imbalance": imbalance(counts),
    }


def imbalance(counts: Mapping[str, int]) -> float:
    """How many times as frequent the most frequent label is as the rarest that occurs; 1 where none does."""
    occurring = [count for count in counts.values() if count]
    return max(occurring) / min(occurring) if occurring else 1.0

"""A split ready for the upper layers, and what a task model answers on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from inference.hplm.hplm import CLASSIFICATION
from inference.hplm.plot import PlotChain, PlotTable
from inference.hplm.root import Root
from workers.training.datasets import OUTSIDE, UNKNOWN, Encoded, Example, encode
from workers.training.lookup import LookedUp, look_up
from workers.training.metrics import classification_scores, tagging_scores
from workers.training.precision import Arithmetic
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel

TEXTS_AT_ONCE = 64


@dataclass(frozen=True)
class Backbone:
    """A root with the tables of one branch of its tree, nearest first."""

    root: Root
    chain: PlotChain
    arithmetic: Arithmetic

    @classmethod
    def open(cls, root: Path, plots: Sequence[Path], arithmetic: Arithmetic) -> "Backbone":
        """Read the root and map the tables."""
        loaded = Root.load(root, arithmetic.device)
        return cls(loaded, PlotChain([PlotTable.open(plot) for plot in plots]), arithmetic)


@dataclass(frozen=True)
class Prepared:
    """Examples of a split with their ids and looked-up states."""

    examples: list[Example]
    encoded: list[Encoded]
    states: LookedUp

    def targets(self, labels: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        """For each text, which labels are to be read off; UNKNOWN for one that the model cannot give."""
        numbers = {label: number for number, label in enumerate(labels)}
        return [
            np.asarray([numbers.get(example.labels[word], UNKNOWN) for word in encoded.words], dtype=np.int64)
            for example, encoded in zip(self.examples, self.encoded, strict=True)
        ]


def prepare(examples: list[Example], task: str, backbone: Backbone, reporter: Reporter) -> Prepared:
    """Tokenise and look up."""
    encoded = [encode(example, task, backbone.root.tokenizer) for example in examples]
    return Prepared(examples, encoded, look_up([e.ids for e in encoded], backbone.chain, reporter))


def logits_of(model: TaskModel, backbone: Backbone, split: Prepared, numbers: Sequence[int]) -> Tensor:
    """Logits [K, C] float32 where labels are read off, those of one text after those of the other."""
    device = backbone.arithmetic.device
    states, mask = split.states.batch(numbers)
    positions = [split.encoded[n].positions for n in numbers]
    rows = torch.from_numpy(np.repeat(np.arange(len(numbers)), [len(p) for p in positions]))
    places = torch.from_numpy(np.concatenate(positions))
    with backbone.arithmetic.autocast():
        logits: Tensor = model(
            backbone.root.upper, states.to(device), mask.to(device), rows.to(device), places.to(device)
        )
    return logits


@torch.no_grad()
def predict(
    model: TaskModel, backbone: Backbone, split: Prepared, labels: Sequence[str], reporter: Reporter
) -> list[list[str]]:
    """For each text the label of each of its words; a word that was cut off belongs to no entity."""
    answers = [[OUTSIDE] * len(example.labels) for example in split.examples]
    order = np.argsort([len(e.ids) for e in split.encoded], kind="stable").tolist()
    for start in range(0, len(order), TEXTS_AT_ONCE):
        reporter.check()
        numbers = order[start : start + TEXTS_AT_ONCE]
        best = iter(logits_of(model, backbone, split, numbers).argmax(-1).tolist())
        for number in numbers:
            for word in split.encoded[number].words:
                answers[number][word] = labels[next(best)]
    return answers


def scores(
    split: Prepared, predicted: list[list[str]], task: str, baseline_from: list[Example]
) -> dict[str, Any]:
    """The task's metric with the trivial answers, learnt on `baseline_from`, beside it."""
    words = [list(example.words) for example in split.examples]
    expected = [list(example.labels) for example in split.examples]
    if task == CLASSIFICATION:
        result = classification_scores(
            [labels[0] for labels in expected],
            [labels[0] for labels in predicted],
            seen=[example.labels[0] for example in baseline_from],
        )
    else:
        result = tagging_scores(
            words, expected, predicted, seen=[(example.words, example.labels) for example in baseline_from]
        )
    truncated = sum(encoded.truncated for encoded in split.encoded) / len(split.encoded)
    return {**result, "rows": len(expected), "truncated_share": truncated, "plot_hits": split.states.hits}

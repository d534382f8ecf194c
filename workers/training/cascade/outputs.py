"""A model's outputs for a split at both levels, and what the cascade reads of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from inference.cascade.confidence import confidence
from inference.cascade.dispatcher import HASH_BYTES, Coverage, Level, OutputKind, draw
from inference.text.encodings import InferInput, outputs_at
from inference.text.tasks import OUTPUT_KINDS, Task
from inference.text.tokenization import Encoding
from workers.training.datasets import Example
from workers.training.prepared_split import Backbone, PreparedSplit, compute_outputs
from workers.training.progress import Reporter
from workers.training.task_model import TaskModel
from workers.training.tasks.base import ExampleOutputs, Outputs, TaskKind


@dataclass(frozen=True)
class OutputsByLevel:
    """The outputs for the E examples of a split at both levels, and of their S sequences, example by example:
    the coverage at the level TABLE."""

    kind: TaskKind
    table: Sequence[ExampleOutputs]
    full: Sequence[ExampleOutputs]
    coverage: Sequence[Coverage]

    @property
    def output_kind(self) -> OutputKind:
        """What the outputs are."""
        return OUTPUT_KINDS[cast("Task", self.kind.name)]

    @property
    def examples(self) -> list[Example]:
        """The examples of the split."""
        return [one.example for one in self.table]

    def at(self, level: Level) -> Sequence[ExampleOutputs]:
        """The outputs of each example at this level."""
        return self.table if level is Level.TABLE else self.full

    @cached_property
    def owners(self) -> npt.NDArray[np.int64]:
        """The index [S] of each sequence's example."""
        counts = [len(one.encodings) for one in self.table]
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def draws(self) -> npt.NDArray[np.float64]:
        """The number [S] from 0 to below 1 that each sequence's text draws, as in serving."""
        by_example = [draw(text_hash(example)) for example in self.examples]
        return np.asarray(by_example)[self.owners]

    def sequences(self, level: Level) -> list[tuple[Encoding, Outputs]]:
        """The encoding and all the outputs of each sequence."""
        return [pair for one in self.at(level) for pair in zip(one.encodings, one.outputs, strict=True)]

    def confidences(self, level: Level, temperature: float, threshold: float) -> list[float | None]:
        """The confidence of each sequence, from the outputs that its prediction reads."""
        return [
            confidence(self.output_kind, read(self.kind, encoding, outputs), temperature, threshold)
            for encoding, outputs in self.sequences(level)
        ]

    def rights(self, answers: Sequence[Any]) -> list[bool | None]:
        """Whether the answer to each example is right, as `TaskKind.evaluate` says: of tagging all spans of
        the sentence, of several labels the exact set. None for numbers."""
        pairs = zip(self.examples, answers, strict=True)
        return [self.kind.evaluate(example, answer).right for example, answer in pairs]

    def answers(self, level: Level) -> list[Any]:
        """What each example is answered at this level."""
        return [self.kind.predict(one) for one in self.at(level)]

    def divided(self, table: float, full: float) -> "OutputsByLevel":
        """With the logits of each level divided by these temperatures."""
        low, high = (
            [replace(one, outputs=[logits / by for logits in one.outputs]) for one in level]
            for level, by in ((self.table, table), (self.full, full))
        )
        return replace(self, table=low, full=high)

    def least_sure(self, confidences: Sequence[float | None]) -> npt.NDArray[np.float64]:
        """The confidence [E] of each example: that of its least sure sequence, 1.0 where none has any."""
        found = np.ones(len(self.table))
        given = np.asarray([1.0 if one is None else one for one in confidences])
        np.minimum.at(found, self.owners, given)
        return found


def joined(parts: Sequence[OutputsByLevel]) -> OutputsByLevel:
    """The outputs of several splits, or of models of the same task and labels, as of one."""
    return OutputsByLevel(
        parts[0].kind,
        [one for part in parts for one in part.table],
        [one for part in parts for one in part.full],
        [one for part in parts for one in part.coverage],
    )


def read_both_levels(
    model: TaskModel, backbone: Backbone, split: PreparedSplit, kind: TaskKind, reporter: Reporter
) -> OutputsByLevel:
    """The model's outputs for a split that was prepared in both modes. Prepared in the mode table alone, it
    has those of the level TABLE at both levels."""
    modes = split.modes
    at = modes.index("table")
    table = compute_outputs(model, backbone, split, kind, reporter, at)
    full = table
    if "full" in modes:
        full = compute_outputs(model, backbone, split, kind, reporter, modes.index("full"))
    return OutputsByLevel(kind, table, full, split.states[at].coverage)


def read(kind: TaskKind, encoding: Encoding, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values that the prediction reads: of tagging, those of the words' first tokens."""
    positions = outputs_at(kind.name, encoding)
    return values if positions is None else values[positions]


def text_hash(example: Example) -> bytes:
    """The hash of the example's text, as a request for it has. Of tagging, the words joined by spaces."""
    text = " ".join(example.words) if example.words else example.text
    return InferInput(text, example.pair).digest(HASH_BYTES)

"""Made-up outputs of models at both levels, for the tests of the cascade."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from inference.cascade.dispatcher import Coverage
from inference.cascade.profile import LevelCost, LevelCosts
from inference.text.tokenization import Encoding
from workers.training.cascade.outputs import OutputsByLevel
from workers.training.datasets import Example, SpanAnswer
from workers.training.tasks import task_kind
from workers.training.tasks.base import ExampleOutputs, Outputs, TaskKind

CLASSES = ("a", "b", "c")
TAGS = ("B-x", "I-x", "O")
COSTS = LevelCosts(LevelCost(0.5, 0.0), LevelCost(2.0, 0.0))
"""Of a text of any length."""


def encoding(words: int = 1) -> Encoding:
    """A text of one-token words between two special tokens, or a context behind no question."""
    inside = np.arange(words)
    index = np.concatenate(([-1], inside, [-1]))
    starts = np.concatenate(([0], 2 * inside, [0]))
    offsets = np.stack([starts, starts + (index >= 0)], axis=1)
    second = np.where(index >= 0, 1, -1)
    return Encoding(np.arange(words + 2), offsets, False, index, second, np.zeros(words + 2, np.int64))


def outputs_by_level(
    kind: TaskKind,
    examples: Sequence[Example],
    levels: Sequence[Sequence[Sequence[Outputs]]],
    coverage: Sequence[Coverage] = (),
    words: int = 1,
) -> OutputsByLevel:
    """From the outputs of each example's sequences, at the levels TABLE and FULL."""
    table, full = (
        [
            ExampleOutputs(example, [encoding(words)] * len(found), found)
            for example, found in zip(examples, level, strict=True)
        ]
        for level in levels
    )
    sequences = sum(len(one.outputs) for one in table)
    return OutputsByLevel(kind, table, full, list(coverage) or [Coverage(1)] * sequences)


def classified(
    rows: int, *, seed: int = 0, table_noise: float = 1.5, full_noise: float = 0.5, sharpness: float = 1.0
) -> OutputsByLevel:
    """A model of three classes that is right more often at the level FULL.

    Logits are those of a sound posterior times `sharpness`: the right temperature is `sharpness`.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, len(CLASSES), rows)
    examples = [Example(f"text {seed} {number}", labels=(CLASSES[at],)) for number, at in enumerate(truth)]
    levels = []
    for noise in (table_noise, full_noise):
        seen = np.eye(len(CLASSES))[truth] + noise * rng.normal(size=(rows, len(CLASSES)))
        # The posterior of a class under Gaussian noise is a softmax of what is seen over its variance.
        levels.append([[row] for row in sharpness * seen / noise**2])
    return outputs_by_level(task_kind("classification", CLASSES), examples, levels)


def agreeing(rows: int) -> OutputsByLevel:
    """Both levels give the same answers, of which a tenth is wrong."""
    examples = [Example(f"text {at}", labels=("a" if at % 10 else "b",)) for at in range(rows)]
    logits = [[np.asarray([3.0, 1.0, 0.0])]] * rows
    return outputs_by_level(task_kind("classification", CLASSES), examples, [logits, logits])


def tagged(
    rows: int, *, seed: int = 0, words: int = 8, table_noise: float = 0.5, full_noise: float = 0.35
) -> OutputsByLevel:
    """Sentences whose tags are right, each by itself, as often as their probabilities say."""
    rng = np.random.default_rng(seed)
    tags = np.asarray(["B-x", "O"])
    truth = rng.integers(0, 2, (rows, words + 2))
    examples = [
        Example(words=(f"{seed}.{number}", *"w" * (words - 1)), labels=tuple(tags[row[1:-1]].tolist()))
        for number, row in enumerate(truth)
    ]
    levels = []
    for noise in (table_noise, full_noise):
        seen = np.eye(2)[truth] + noise * rng.normal(size=(rows, words + 2, 2))
        levels.append([[row / noise**2] for row in seen])
    return outputs_by_level(task_kind("tagging", tags.tolist()), examples, levels, words=words)


def made_up(task: str, rows: int, *, seed: int = 0) -> OutputsByLevel:
    """A model of any task that is right more often at the level FULL; texts that unigrams answered change."""
    rng = np.random.default_rng(seed)
    make = {
        "classification": _classes,
        "multilabel": _labels,
        "regression": _numbers,
        "tagging": _tags,
        "question_answering": _spans,
    }[task]
    kind, examples, truths, words = make(rows, rng)
    uncovered = rng.random(rows)
    noises = (0.4 + 3.0 * uncovered, np.full(rows, 0.4))
    levels = [
        [[truth + noise * rng.normal(size=truth.shape)] for truth, noise in zip(truths, level, strict=True)]
        for level in noises
    ]
    coverage = [Coverage(100 - int(100 * one), 0, int(100 * one)) for one in uncovered]
    return outputs_by_level(kind, examples, levels, coverage, words)


Made = tuple[TaskKind, list[Example], list[np.ndarray[Any, Any]], int]
SURE = 4.0


def _classes(rows: int, rng: np.random.Generator) -> Made:
    truth = rng.integers(0, len(CLASSES), rows)
    examples = [Example(f"text {number}", labels=(CLASSES[at],)) for number, at in enumerate(truth)]
    return task_kind("classification", CLASSES), examples, list(SURE * np.eye(len(CLASSES))[truth]), 1


def _labels(rows: int, rng: np.random.Generator) -> Made:
    truth = rng.random((rows, len(CLASSES))) < 0.5
    examples = [
        Example(f"text {number}", labels=tuple(np.asarray(CLASSES)[row].tolist()))
        for number, row in enumerate(truth)
    ]
    return task_kind("multilabel", CLASSES), examples, list(SURE * (2.0 * truth - 1)), 1


def _numbers(rows: int, rng: np.random.Generator) -> Made:
    truth = SURE * rng.normal(size=(rows, 1))
    examples = [Example(f"text {number}", value=float(row[0])) for number, row in enumerate(truth)]
    return task_kind("regression", ["value"]), examples, list(truth), 1


def _tags(rows: int, rng: np.random.Generator) -> Made:
    words, examples, truths = 4, [], []
    for number in range(rows):
        tags = ["O"] * words
        at = int(rng.integers(0, words - 1))
        tags[at : at + 2] = ["B-x", "I-x"]
        examples.append(Example(words=(str(number), "u", "v", "w"), labels=tuple(tags)))
        chosen = [TAGS.index(tag) for tag in ("O", *tags, "O")]
        truths.append(SURE * np.eye(len(TAGS))[chosen])
    return task_kind("tagging", TAGS), examples, truths, words


def _spans(rows: int, rng: np.random.Generator) -> Made:
    words, context = 4, "k l m n"
    examples, truths = [], []
    for number in range(rows):
        at = int(rng.integers(0, words))
        answer = SpanAnswer(context[2 * at], 2 * at)
        examples.append(Example(f"question {number}", context, answers=(answer,)))
        truth = np.zeros((words + 2, 2))
        truth[at + 1] = 2 * SURE
        truths.append(truth)
    return task_kind("question_answering", ["start", "end"]), examples, truths, words

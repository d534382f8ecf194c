"""Tags of words, and the spans they make: strictly IOB2, as the metric counts.

Only B-x begins a span and I-x continues one of x; an I-x that continues nothing is illegal.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What an illegal step costs, in log-probability: more than any legal one, and still a number, for labels
# among which there is no legal sequence.
_ILLEGAL = -1e4


def best_tags(labels: Sequence[str], log_probabilities: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """The likeliest legal sequence, as indices [W] of `labels`, from log-probabilities [W, C] of each word's
    tag (or logits: what a word's row adds to all its tags does not matter)."""
    best: NDArray[np.int64] = log_probabilities.argmax(axis=-1)
    # The best of all sequences is nearly always legal, and then the best of the legal ones.
    if _is_legal([labels[index] for index in best]):
        return best
    first, steps = _costs(labels)
    score = log_probabilities[0].astype(np.float64) + first
    came_from = np.zeros(log_probabilities.shape, dtype=np.int64)
    for word in range(1, len(log_probabilities)):
        through = score[:, None] + steps
        came_from[word] = through.argmax(axis=0)
        score = through.max(axis=0) + log_probabilities[word]
    best[-1] = score.argmax()
    for word in range(len(best) - 1, 0, -1):
        best[word - 1] = came_from[word, best[word]]
    return best


def iob2_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(label, first, end) of each span in a sequence of tags; end is exclusive. An illegal I-x is nothing."""
    spans: list[tuple[str, int, int]] = []
    label, first = "", 0
    for at, tag in enumerate([*tags, "O"]):
        prefix, _, name = tag.partition("-")
        if label and not (prefix == "I" and name == label):
            spans.append((label, first, at))
            label = ""
        if prefix == "B":
            label, first = name, at
    return spans


def _is_legal(tags: Sequence[str]) -> bool:
    return not any(_breaks(before, tag) for before, tag in zip(["O", *tags], tags, strict=False))


def _breaks(before: str, tag: str) -> bool:
    return tag.startswith("I-") and (before[:2] not in ("B-", "I-") or before[2:] != tag[2:])


def _costs(labels: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """[C] of beginning with a tag, [C, C] of going from one to another."""
    first = np.array([_ILLEGAL * _breaks("O", tag) for tag in labels])
    steps = np.array([[_ILLEGAL * _breaks(before, tag) for tag in labels] for before in labels])
    return first, steps

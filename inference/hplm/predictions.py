"""From logits to what a client is told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.hplm.hplm import TAGGING, Task
from inference.hplm.tokenization import Encoding

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ClassPrediction:
    """The likeliest label, and the probability of each."""

    label: str
    scores: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return {"label": self.label, "scores": {k: round(v, _DIGITS) for k, v in self.scores.items()}}


@dataclass(frozen=True, slots=True)
class TagSpan:
    """A labelled stretch of the text: characters start (inclusive) to end (exclusive), and the stretch
    itself.

    score: the mean probability of the tags of its words.
    """

    start: int
    end: int
    label: str
    text: str
    score: float

    def to_json(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "end": self.end,
            "text": self.text,
            "label": self.label,
            "score": round(self.score, _DIGITS),
        }


@dataclass(frozen=True, slots=True)
class TagPrediction:
    """The spans found, in the order of the text."""

    spans: tuple[TagSpan, ...]

    def to_json(self) -> dict[str, Any]:
        return {"spans": [span.to_json() for span in self.spans]}


Prediction = ClassPrediction | TagPrediction


def predict(
    task: Task, labels: Sequence[str], logits: NDArray[np.floating[Any]], encoding: Encoding, text: str
) -> Prediction:
    """The prediction of either task: logits [C] for a classification, [T, C] for a tagging of `text`."""
    if task == TAGGING:
        return tag_prediction(labels, logits, encoding, text)
    return class_prediction(labels, logits)


def class_prediction(labels: Sequence[str], logits: NDArray[np.floating[Any]]) -> ClassPrediction:
    """Softmax over logits [C]."""
    scores = [float(score) for score in _softmax(logits)]
    best = int(np.argmax(logits))
    return ClassPrediction(labels[best], dict(zip(labels, scores, strict=True)))


def tag_prediction(
    labels: Sequence[str], logits: NDArray[np.floating[Any]], encoding: Encoding, text: str
) -> TagPrediction:
    """IOB2 over the words of `text`: the best tag at the first token of each, from logits [T, C]."""
    probabilities = _softmax(logits[encoding.word_starts])
    best = probabilities.argmax(axis=-1)
    chosen = probabilities.max(axis=-1, initial=0)
    words = encoding.word_spans()
    spans = []
    for label, first, end in iob2_spans([labels[index] for index in best]):
        start, stop = words[first][0], words[end - 1][1]
        spans.append(TagSpan(start, stop, label, text[start:stop], float(chosen[first:end].mean())))
    return TagPrediction(tuple(spans))


def iob2_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(label, first, end) of each span in a sequence of tags; end is exclusive.

    Strictly IOB2, as the metric counts: only B-x begins a span, I-x continues one of x, a stray I-x is
    nothing.
    """
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


def _softmax(logits: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64)
    shifted = np.exp(shifted - shifted.max(axis=-1, keepdims=True))
    result: NDArray[np.float64] = shifted / shifted.sum(axis=-1, keepdims=True)
    return result

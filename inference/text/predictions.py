"""Predictions from logits, and the decoding of IOB2 tags."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.cascade.confidence import probabilities
from inference.text.tasks import DEFAULT_THRESHOLD, Task
from inference.text.tokenization import Encoding

_ILLEGAL = -1e4
"""Log-probability of an illegal transition; finite, since some sets of labels have no legal sequence."""


def best_tags(labels: Sequence[str], log_probabilities: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """The most probable legal sequence of tags (Viterbi), as indices [W] of `labels`.

    log_probabilities [W, C]: of the tags of each word; logits will do.
    """
    best: NDArray[np.int64] = log_probabilities.argmax(axis=-1)
    # The argmax is nearly always legal.
    if _is_legal([labels[index] for index in best]):
        return best
    first, steps = _transition_costs(labels)
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
    """(label, first, end) of each span of IOB2 tags; end is exclusive. An illegal I-x is ignored."""
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
    return not any(_is_illegal(before, tag) for before, tag in zip(["O", *tags], tags, strict=False))


def _is_illegal(before: str, tag: str) -> bool:
    return tag.startswith("I-") and (before[:2] not in ("B-", "I-") or before[2:] != tag[2:])


def _transition_costs(labels: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The log-probabilities [C] of first tags and [C, C] of transitions: 0 or _ILLEGAL."""
    first = np.array([_ILLEGAL * _is_illegal("O", tag) for tag in labels])
    steps = np.array([[_ILLEGAL * _is_illegal(before, tag) for tag in labels] for before in labels])
    return first, steps


MAX_ANSWER_TOKENS = 30
"""Longest answer to a question."""
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class ClassPrediction:
    """The most probable label, and the probability of each label."""

    label: str
    scores: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        return {"label": self.label, "scores": {k: round(v, _DIGITS) for k, v in self.scores.items()}}


@dataclass(frozen=True, slots=True)
class TagSpan:
    """A labelled span: characters start to end (exclusive), and their text.

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
    """The spans, in the order of the text."""

    spans: tuple[TagSpan, ...]

    def to_json(self) -> dict[str, Any]:
        return {"spans": [span.to_json() for span in self.spans]}


@dataclass(frozen=True, slots=True)
class LabelSetPrediction:
    """The predicted labels, and the probability of each label."""

    labels: tuple[str, ...]
    scores: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        scores = {label: round(score, _DIGITS) for label, score in self.scores.items()}
        return {"labels": list(self.labels), "scores": scores}


@dataclass(frozen=True, slots=True)
class ValuePrediction:
    """The predicted number of a regression."""

    value: float

    def to_json(self) -> dict[str, Any]:
        return {"value": round(self.value, _DIGITS)}


@dataclass(frozen=True, slots=True)
class AnswerPrediction:
    """The span of the context that answers a question: characters start to end (exclusive).

    It is empty, at 0, if there is no answer. score: its probability within its window.
    """

    answer: str
    start: int
    end: int
    score: float

    def to_json(self) -> dict[str, Any]:
        return {
            "answer": self.answer,
            "start": self.start,
            "end": self.end,
            "score": round(self.score, _DIGITS),
        }


Prediction = ClassPrediction | LabelSetPrediction | ValuePrediction | TagPrediction | AnswerPrediction
Logits = NDArray[np.floating[Any]]


def predict(
    task: Task,
    labels: Sequence[str],
    outputs: Sequence[Logits],
    encodings: Sequence[Encoding],
    text: str,
    pair: str | None = None,
    *,
    threshold: float = DEFAULT_THRESHOLD,
) -> Prediction:
    """The prediction from logits: [C] of a text, [T, 2] of its tokens (question answering), or [W, C] of the
    first tokens of its words (tagging, see `outputs_at`).

    Question answering has logits and an encoding for each window of the context `pair`, other tasks one each.
    """
    match task:
        case "tagging":
            return tag_prediction(labels, outputs[0], encodings[0], text)
        case "multilabel":
            return label_set_prediction(labels, outputs[0], threshold)
        case "regression":
            return ValuePrediction(float(outputs[0][0]))
        case "question_answering":
            return answer_prediction(outputs, encodings, pair or "")
        case _:
            return class_prediction(labels, outputs[0])


def label_set_prediction(
    labels: Sequence[str], logits: Logits, threshold: float = DEFAULT_THRESHOLD
) -> LabelSetPrediction:
    """Sigmoid of logits [C]; labels with a score of at least `threshold` are predicted."""
    scores = probabilities("labels", logits).tolist()
    predicted = tuple(label for label, score in zip(labels, scores, strict=True) if score >= threshold)
    return LabelSetPrediction(predicted, dict(zip(labels, scores, strict=True)))


def answer_prediction(
    outputs: Sequence[Logits], encodings: Sequence[Encoding], context: str
) -> AnswerPrediction:
    """The best span over all windows, from their logits [T, 2] of starts and ends.

    There is no answer only if each window prefers its first token, which stands for no answer.
    """
    found = [_best_span(logits, encoding) for logits, encoding in zip(outputs, encodings, strict=True)]
    gain, score, first, last, number = max((*span, number) for number, span in enumerate(found))
    if gain <= 0:
        return AnswerPrediction("", 0, 0, min(1 - one[1] for one in found))
    offsets = encodings[number].offsets
    start, end = int(offsets[first, 0]), int(offsets[last, 1])
    return AnswerPrediction(context[start:end], start, end, score)


def _best_span(logits: Logits, encoding: Encoding) -> tuple[float, float, int, int]:
    """(margin over no answer, probability, first token, last token) of the best span of a window."""
    inside = np.flatnonzero(encoding.sequence == 1)
    scores = logits.astype(np.float64)
    if not len(inside):
        return -np.inf, 0.0, 0, 0
    longest = min(MAX_ANSWER_TOKENS, len(inside))
    # [N, longest]: the sum of each first token and the token so many places after it.
    ends = np.append(scores[inside, 1], np.full(longest - 1, -np.inf))
    sums = scores[inside, 0][:, None] + np.lib.stride_tricks.sliding_window_view(ends, longest)
    first, further = (int(at) for at in np.unravel_index(int(sums.argmax()), sums.shape))
    no_answer = scores[0, 0] + scores[0, 1]
    every = np.append(sums[np.isfinite(sums)], no_answer)
    score = float(np.exp(sums[first, further] - every.max()) / np.exp(every - every.max()).sum())
    return float(sums[first, further] - no_answer), score, int(inside[first]), int(inside[first + further])


def class_prediction(labels: Sequence[str], logits: NDArray[np.floating[Any]]) -> ClassPrediction:
    """Softmax over logits [C]."""
    scores = probabilities("classes", logits).tolist()
    best = int(np.argmax(logits))
    return ClassPrediction(labels[best], dict(zip(labels, scores, strict=True)))


def tag_prediction(
    labels: Sequence[str], logits: NDArray[np.floating[Any]], encoding: Encoding, text: str
) -> TagPrediction:
    """The most probable legal IOB2 tags of the words, from their logits [W, C]."""
    best = best_tags(labels, logits)
    chosen = probabilities("tokens", logits)[np.arange(len(best)), best]
    words = encoding.word_spans()
    spans = []
    for label, first, end in iob2_spans([labels[index] for index in best]):
        start, stop = words[first][0], words[end - 1][1]
        spans.append(TagSpan(start, stop, label, text[start:stop], float(chosen[first:end].mean())))
    return TagPrediction(tuple(spans))

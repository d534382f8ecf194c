"""Tasks whose head reads every token: tagging (IOB2) and question answering."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional

from inference.text.predictions import answer_prediction, best_tags, iob2_spans
from inference.text.tasks import FIXED_LABELS, QUESTION_ANSWERING, TAGGING
from inference.text.tokenization import Encoding, TextTokenizer
from workers.training.datasets import OUTSIDE, Example
from workers.training.metrics import answer_f1, answer_metrics, f1_statistics, is_answer, tagging_metrics
from workers.training.tasks.base import (
    IGNORE_INDEX,
    EvaluatedRow,
    ExampleOutputs,
    Target,
    TaskKind,
    cross_entropy,
    stacked,
)


class Tagging(TaskKind):
    """Softmax at the first token of each word (IOB2); the metric is strict F1 of entities."""

    name = TAGGING
    per_token = True

    def fit(self, train: Sequence[Example]) -> None:
        """The labels always include "O", and a B- for each I-."""
        labels = {label for example in train for label in example.labels}
        self._set_labels(labels | {OUTSIDE} | {"B-" + tag[2:] for tag in labels if tag.startswith("I-")})

    def encode(self, example: Example, tokenizer: TextTokenizer) -> list[Encoding]:
        return [tokenizer.encode_words(example.words)]

    def target(self, example: Example, encoding: Encoding) -> Target:
        indices = {label: index for index, label in enumerate(self.labels)}
        target = np.full(len(encoding), IGNORE_INDEX, dtype=np.int64)
        for position in np.flatnonzero(encoding.word_starts):
            target[position] = indices.get(example.labels[encoding.word_index[position]], IGNORE_INDEX)
        return target

    def loss(self, outputs: Tensor, targets: Sequence[Target], class_weights: Tensor | None) -> Tensor:
        padded = np.full(outputs.shape[:2], IGNORE_INDEX, dtype=np.int64)
        for row, target in enumerate(targets):
            padded[row, : len(target)] = target
        return cross_entropy(outputs.flatten(0, 1), padded.flatten(), class_weights)

    def predict(self, outputs: ExampleOutputs) -> list[str]:
        """The likeliest valid tags of the words, as in serving; a truncated word gets "O"."""
        (encoding,) = outputs.encodings
        tags = [OUTSIDE] * len(outputs.example.words)
        positions = np.flatnonzero(encoding.word_starts)
        best = best_tags(self.labels, outputs.outputs[0][positions])
        for position, index in zip(positions, best, strict=True):
            tags[encoding.word_index[position]] = self.labels[int(index)]
        return tags

    def evaluate(self, example: Example, answer: Any) -> EvaluatedRow:
        """Spans as [label, first word, word after the last]."""
        gold, predicted = ([list(span) for span in iob2_spans(tags)] for tags in (example.labels, answer))
        return EvaluatedRow(gold, predicted, gold == predicted)

    def statistics(self, example: Example, answer: Any) -> tuple[float, ...]:
        return f1_statistics(set(iob2_spans(example.labels)), set(iob2_spans(answer)))

    def compute_metrics(
        self, examples: Sequence[Example], answers: Sequence[Any], train: Sequence[Example]
    ) -> dict[str, Any]:
        return tagging_metrics(
            [list(e.words) for e in examples],
            [list(e.labels) for e in examples],
            list(answers),
            train=[(e.words, e.labels) for e in train],
        )


class QuestionAnswering(TaskKind):
    """Softmax over a window's tokens for the start and for the end; the first token means no answer.

    The metric is SQuAD's F1 of words.
    """

    name = QUESTION_ANSWERING
    per_token = True

    def fit(self, train: Sequence[Example]) -> None:
        self.labels = list(FIXED_LABELS[QUESTION_ANSWERING])

    def encode(self, example: Example, tokenizer: TextTokenizer) -> list[Encoding]:
        return tokenizer.windows(example.text, example.pair or "")

    def target(self, example: Example, encoding: Encoding) -> Target:
        """[2]: first and last token of the first answer inside the window; zeros when there is none."""
        inside = np.flatnonzero(encoding.sequence == 1)
        offsets = encoding.offsets
        for answer in example.answers:
            start, end = answer.start, answer.start + len(answer.text)
            first = inside[(offsets[inside, 0] <= start) & (start < offsets[inside, 1])]
            last = inside[(offsets[inside, 0] < end) & (end <= offsets[inside, 1])]
            if len(first) and len(last):
                return np.asarray([first[0], last[-1]], dtype=np.int64)
        return np.zeros(2, dtype=np.int64)

    def loss(self, outputs: Tensor, targets: Sequence[Target], class_weights: Tensor | None) -> Tensor:
        target = stacked(targets, outputs.device)
        # At padding the model's outputs are very low, so the softmax ignores them.
        starts = functional.cross_entropy(outputs[:, :, 0], target[:, 0])
        return (starts + functional.cross_entropy(outputs[:, :, 1], target[:, 1])) / 2

    def predict(self, outputs: ExampleOutputs) -> str:
        return answer_prediction(outputs.outputs, outputs.encodings, outputs.example.pair or "").answer

    def evaluate(self, example: Example, answer: Any) -> EvaluatedRow:
        gold = list(dict.fromkeys(one.text for one in example.answers))
        return EvaluatedRow(gold, answer, is_answer(gold, answer))

    def statistics(self, example: Example, answer: Any) -> tuple[float, ...]:
        return answer_f1([right.text for right in example.answers], answer), 1.0

    def compute_metrics(
        self, examples: Sequence[Example], answers: Sequence[Any], train: Sequence[Example]
    ) -> dict[str, Any]:
        return answer_metrics([[a.text for a in e.answers] for e in examples], list(answers))

    def class_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        answered = sum(bool(example.answers) for example in examples)
        return {"answered": answered, "unanswerable": len(examples) - answered}

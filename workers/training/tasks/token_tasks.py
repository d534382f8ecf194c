"""Tasks whose head reads every token: tagging (IOB2) and question answering."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.hplm import FIXED_LABELS, QUESTION_ANSWERING, TAGGING
from inference.hplm.predictions import answer_prediction, best_tags, iob2_spans
from inference.hplm.tokenization import Encoding, TextTokenizer
from workers.training.datasets import OUTSIDE, Example
from workers.training.metrics import answer_scores, is_answer, tagging_scores
from workers.training.tasks.base import (
    UNKNOWN,
    Judged,
    Outputs,
    Target,
    as_trained,
    cross_entropy,
    require_two,
)


class Tagging:
    """Softmax at the first token of each word; the metric is strict F1 of entities."""

    name = TAGGING
    per_token = True
    stored = staticmethod(as_trained)
    resumed = staticmethod(as_trained)

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """Always with "O", and with a B- for each I-."""
        labels = {label for example in examples for label in example.labels}
        return require_two(labels | {OUTSIDE} | {"B-" + tag[2:] for tag in labels if tag.startswith("I-")})

    def encode(self, example: Example, tokenizer: TextTokenizer) -> list[Encoding]:
        return [tokenizer.encode_words(example.words)]

    def target(self, example: Example, encoding: Encoding, labels: Sequence[str]) -> Target:
        numbers = {label: number for number, label in enumerate(labels)}
        wanted = np.full(len(encoding), UNKNOWN, dtype=np.int64)
        for place in np.flatnonzero(encoding.word_starts):
            wanted[place] = numbers.get(example.labels[encoding.word_index[place]], UNKNOWN)
        return wanted

    def loss(self, outputs: Tensor, targets: Sequence[Target], weights: Tensor | None) -> Tensor:
        wanted = torch.full(outputs.shape[:2], UNKNOWN, dtype=torch.int64)
        for row, target in enumerate(targets):
            wanted[row, : len(target)] = torch.from_numpy(target)
        return cross_entropy(outputs.flatten(0, 1), wanted.flatten().to(outputs.device), weights)

    def decode(
        self,
        example: Example,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
        threshold: float,
    ) -> list[str]:
        """The likeliest legal tags of the words, as serving has them; a word that was cut off belongs to no
        entity."""
        (encoding,) = encodings
        tags = [OUTSIDE] * len(example.words)
        places = np.flatnonzero(encoding.word_starts)
        for place, best in zip(places, best_tags(labels, outputs[0][places]), strict=True):
            tags[encoding.word_index[place]] = labels[int(best)]
        return tags

    def judged(
        self,
        example: Example,
        answer: Any,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
    ) -> Judged:
        """Spans as [label, first word, word after the last]. score: the mean probability of the tags."""
        (encoding,) = encodings
        gold, answered = ([list(span) for span in iob2_spans(tags)] for tags in (example.labels, answer))
        numbers = {label: number for number, label in enumerate(labels)}
        places = np.flatnonzero(encoding.word_starts)
        chosen = [numbers[answer[encoding.word_index[place]]] for place in places]
        read = outputs[0][places].astype(np.float64)
        sure = np.exp(read - read.max(axis=-1, keepdims=True))
        sure = (sure / sure.sum(axis=-1, keepdims=True))[np.arange(len(chosen)), chosen]
        return Judged(gold, answered, gold == answered, float(sure.mean()) if len(chosen) else None)

    def scores(
        self, examples: Sequence[Example], answers: Sequence[Any], seen: Sequence[Example]
    ) -> dict[str, Any]:
        return tagging_scores(
            [list(example.words) for example in examples],
            [list(example.labels) for example in examples],
            list(answers),
            seen=[(example.words, example.labels) for example in seen],
        )

    def counts(self, examples: Sequence[Example]) -> dict[str, int]:
        """Of the tags."""
        return dict(Counter(tag for example in examples for tag in example.labels).most_common())


class QuestionAnswering:
    """Softmax over the tokens of a window for the start and for the end; the first token stands for no
    answer. The metric is the F1 of words, as SQuAD counts it."""

    name = QUESTION_ANSWERING
    per_token = True
    stored = staticmethod(as_trained)
    resumed = staticmethod(as_trained)

    def labels(self, examples: Sequence[Example]) -> list[str]:
        return list(FIXED_LABELS[QUESTION_ANSWERING])

    def encode(self, example: Example, tokenizer: TextTokenizer) -> list[Encoding]:
        return tokenizer.windows(example.text, example.pair or "")

    def target(self, example: Example, encoding: Encoding, labels: Sequence[str]) -> Target:
        """[2] first and last token of the first answer that the window holds; zeros when it holds none."""
        inside = np.flatnonzero(encoding.sequence == 1)
        offsets = encoding.offsets
        for answer in example.answers:
            start, end = answer.start, answer.start + len(answer.text)
            first = inside[(offsets[inside, 0] <= start) & (start < offsets[inside, 1])]
            last = inside[(offsets[inside, 0] < end) & (end <= offsets[inside, 1])]
            if len(first) and len(last):
                return np.asarray([first[0], last[-1]], dtype=np.int64)
        return np.zeros(2, dtype=np.int64)

    def loss(self, outputs: Tensor, targets: Sequence[Target], weights: Tensor | None) -> Tensor:
        wanted = torch.from_numpy(np.stack(targets)).to(outputs.device)
        # Where a row is padded its outputs mean nothing; the model leaves them at minus infinity.
        starts = functional.cross_entropy(outputs[:, :, 0], wanted[:, 0])
        return (starts + functional.cross_entropy(outputs[:, :, 1], wanted[:, 1])) / 2

    def decode(
        self,
        example: Example,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
        threshold: float,
    ) -> str:
        return answer_prediction(outputs, encodings, example.pair or "").answer

    def judged(
        self,
        example: Example,
        answer: Any,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
    ) -> Judged:
        gold = list(dict.fromkeys(right.text for right in example.answers))
        found = answer_prediction(outputs, encodings, example.pair or "")
        return Judged(gold, answer, is_answer(gold, answer), found.score)

    def scores(
        self, examples: Sequence[Example], answers: Sequence[Any], seen: Sequence[Example]
    ) -> dict[str, Any]:
        return answer_scores([[a.text for a in example.answers] for example in examples], list(answers))

    def counts(self, examples: Sequence[Example]) -> dict[str, int]:
        answered = sum(bool(example.answers) for example in examples)
        return {"answered": answered, "unanswerable": len(examples) - answered}

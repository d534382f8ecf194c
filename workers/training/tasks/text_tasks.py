"""Tasks whose head reads a whole text: classification, multi-label classification, regression."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.errors import HplmError
from inference.hplm.heads import Head
from inference.hplm.hplm import CLASSIFICATION, FIXED_LABELS, MULTILABEL, REGRESSION
from inference.hplm.predictions import class_prediction, label_set_prediction
from inference.hplm.tokenization import Encoding
from workers.training.datasets import Example
from workers.training.metrics import classification_scores, label_set_scores, regression_scores
from workers.training.tasks.base import (
    UNKNOWN,
    Judged,
    Outputs,
    Target,
    as_trained,
    cross_entropy,
    distinct_labels,
    encode_texts,
)


class Classification:
    """Softmax over the labels; the metric is accuracy."""

    name = CLASSIFICATION
    per_token = False
    labels = staticmethod(distinct_labels)
    encode = staticmethod(encode_texts)
    stored = staticmethod(as_trained)
    resumed = staticmethod(as_trained)

    def target(self, example: Example, encoding: Encoding, labels: Sequence[str]) -> Target:
        label = example.labels[0]
        return np.asarray(labels.index(label) if label in labels else UNKNOWN, dtype=np.int64)

    def loss(self, outputs: Tensor, targets: Sequence[Target], weights: Tensor | None) -> Tensor:
        wanted = torch.from_numpy(np.stack(targets)).to(outputs.device)
        return cross_entropy(outputs, wanted, weights)

    def decode(
        self,
        example: Example,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
        threshold: float,
    ) -> str:
        return labels[int(outputs[0].argmax())]

    def judged(
        self,
        example: Example,
        answer: Any,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
    ) -> Judged:
        (gold,) = example.labels
        score = class_prediction(labels, outputs[0]).scores[answer]
        return Judged(gold, answer, gold == answer, score)

    def scores(
        self, examples: Sequence[Example], answers: Sequence[Any], seen: Sequence[Example]
    ) -> dict[str, Any]:
        return classification_scores(
            [example.labels[0] for example in examples],
            list(answers),
            seen=[example.labels[0] for example in seen],
        )

    def counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return dict(Counter(example.labels[0] for example in examples).most_common())


class MultiLabel:
    """A logistic function for each label; the metric is micro-F1."""

    name = MULTILABEL
    per_token = False
    labels = staticmethod(distinct_labels)
    encode = staticmethod(encode_texts)
    stored = staticmethod(as_trained)
    resumed = staticmethod(as_trained)

    def target(self, example: Example, encoding: Encoding, labels: Sequence[str]) -> Target:
        return np.asarray([label in example.labels for label in labels], dtype=np.float32)

    def loss(self, outputs: Tensor, targets: Sequence[Target], weights: Tensor | None) -> Tensor:
        wanted = torch.from_numpy(np.stack(targets)).to(outputs.device)
        return functional.binary_cross_entropy_with_logits(outputs, wanted, pos_weight=weights)

    def decode(
        self,
        example: Example,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
        threshold: float,
    ) -> tuple[str, ...]:
        return label_set_prediction(labels, outputs[0], threshold).labels

    def judged(
        self,
        example: Example,
        answer: Any,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
    ) -> Judged:
        """score: the probability that each label holds or not, as was answered."""
        gold, answered = sorted(example.labels), sorted(answer)
        scores = label_set_prediction(labels, outputs[0]).scores
        sure = math.prod(p if label in answer else 1 - p for label, p in scores.items())
        return Judged(gold, answered, gold == answered, sure)

    def scores(
        self, examples: Sequence[Example], answers: Sequence[Any], seen: Sequence[Example]
    ) -> dict[str, Any]:
        return label_set_scores(
            [example.labels for example in examples], list(answers), seen=[e.labels for e in seen]
        )

    def counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return dict(Counter(label for example in examples for label in example.labels).most_common())


class Regression:
    """Squared error; the metric is Pearson's correlation.

    The head learns standardised numbers, by the mean and deviation of the split that gave the labels; the
    stored head (`stored`) says them in the unit of the data.
    """

    name = REGRESSION
    per_token = False
    encode = staticmethod(encode_texts)

    def __init__(self) -> None:
        self.mean, self.deviation = 0.0, 1.0

    def labels(self, examples: Sequence[Example]) -> list[str]:
        values = np.asarray([example.value for example in examples])
        self.mean, self.deviation = float(values.mean()), float(values.std())
        if self.deviation == 0:
            raise HplmError(
                "one_label", "All values of the training split are equal: there is nothing to learn."
            )
        return list(FIXED_LABELS[REGRESSION])

    def target(self, example: Example, encoding: Encoding, labels: Sequence[str]) -> Target:
        return np.asarray([(example.value - self.mean) / self.deviation], dtype=np.float32)

    def loss(self, outputs: Tensor, targets: Sequence[Target], weights: Tensor | None) -> Tensor:
        wanted = torch.from_numpy(np.stack(targets)).to(outputs.device)
        return functional.mse_loss(outputs, wanted)

    def decode(
        self,
        example: Example,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
        threshold: float,
    ) -> float:
        return float(outputs[0][0]) * self.deviation + self.mean

    def judged(
        self,
        example: Example,
        answer: Any,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
    ) -> Judged:
        return Judged(example.value, answer, None, None)

    def scores(
        self, examples: Sequence[Example], answers: Sequence[Any], seen: Sequence[Example]
    ) -> dict[str, Any]:
        return regression_scores(
            [example.value for example in examples], list(answers), seen=[e.value for e in seen]
        )

    def stored(self, head: Head) -> Head:
        return Head(head.weight * self.deviation, head.bias * self.deviation + self.mean, head.pooling)

    def resumed(self, head: Head) -> Head:
        return Head(head.weight / self.deviation, (head.bias - self.mean) / self.deviation, head.pooling)

    def counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return {}

"""Tasks whose head reads a whole text: classification, multi-label classification, regression."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional

from inference.errors import HplmError
from inference.hplm.heads import Head
from inference.text.predictions import label_set_prediction
from inference.text.tasks import CLASSIFICATION, FIXED_LABELS, MULTILABEL, REGRESSION
from inference.text.tokenization import Encoding
from workers.training.datasets import Example
from workers.training.metrics import (
    classification_metrics,
    f1_statistics,
    multilabel_metrics,
    regression_metrics,
)
from workers.training.tasks.base import (
    IGNORE_INDEX,
    EvaluatedRow,
    ExampleOutputs,
    Floats,
    Target,
    TaskKind,
    cross_entropy,
    stacked,
)


class Classification(TaskKind):
    """Softmax over the labels; the metric is accuracy."""

    name = CLASSIFICATION

    def target(self, example: Example, encoding: Encoding) -> Target:
        label = example.labels[0]
        return np.asarray(self.labels.index(label) if label in self.labels else IGNORE_INDEX, dtype=np.int64)

    def loss(self, outputs: Tensor, targets: Sequence[Target], class_weights: Tensor | None) -> Tensor:
        return cross_entropy(outputs, np.stack(targets), class_weights)

    def predict(self, outputs: ExampleOutputs) -> str:
        return self.labels[int(outputs.outputs[0].argmax())]

    def evaluate(self, example: Example, answer: Any) -> EvaluatedRow:
        (gold,) = example.labels
        return EvaluatedRow(gold, answer, gold == answer)

    def statistics(self, example: Example, answer: Any) -> tuple[float, ...]:
        return float(answer == example.labels[0]), 1.0

    def compute_metrics(
        self, examples: Sequence[Example], answers: Sequence[Any], train: Sequence[Example]
    ) -> dict[str, Any]:
        return classification_metrics(
            [e.labels[0] for e in examples], list(answers), train=[e.labels[0] for e in train]
        )


class MultiLabel(TaskKind):
    """A sigmoid for each label; the metric is micro-F1."""

    name = MULTILABEL

    def target(self, example: Example, encoding: Encoding) -> Target:
        return np.asarray([label in example.labels for label in self.labels], dtype=np.float32)

    def loss(self, outputs: Tensor, targets: Sequence[Target], class_weights: Tensor | None) -> Tensor:
        target = stacked(targets, outputs.device)
        return functional.binary_cross_entropy_with_logits(outputs, target, pos_weight=class_weights)

    def predict(self, outputs: ExampleOutputs) -> tuple[str, ...]:
        return label_set_prediction(self.labels, outputs.outputs[0], self.threshold).labels

    def evaluate(self, example: Example, answer: Any) -> EvaluatedRow:
        gold, predicted = sorted(example.labels), sorted(answer)
        return EvaluatedRow(gold, predicted, gold == predicted)

    def statistics(self, example: Example, answer: Any) -> tuple[float, ...]:
        return f1_statistics(set(example.labels), set(answer))

    def compute_metrics(
        self, examples: Sequence[Example], answers: Sequence[Any], train: Sequence[Example]
    ) -> dict[str, Any]:
        return multilabel_metrics(
            [e.labels for e in examples], list(answers), train=[e.labels for e in train]
        )


class Regression(TaskKind):
    """Squared error; the metric is Pearson's correlation.

    The head learns numbers standardised with the training split's mean and deviation; the stored head
    answers in the unit of the data.
    """

    name = REGRESSION
    mean, deviation = 0.0, 1.0

    def fit(self, train: Sequence[Example]) -> None:
        values = np.asarray([example.value for example in train])
        self.mean, self.deviation = float(values.mean()), float(values.std())
        if self.deviation == 0:
            raise HplmError(
                "one_label", "All values of the training split are equal: there is nothing to learn."
            )
        self.labels = list(FIXED_LABELS[REGRESSION])

    def target(self, example: Example, encoding: Encoding) -> Target:
        return np.asarray([(example.value - self.mean) / self.deviation], dtype=np.float32)

    def loss(self, outputs: Tensor, targets: Sequence[Target], class_weights: Tensor | None) -> Tensor:
        return functional.mse_loss(outputs, stacked(targets, outputs.device))

    def predict(self, outputs: ExampleOutputs) -> float:
        return float(outputs.outputs[0][0]) * self.deviation + self.mean

    def evaluate(self, example: Example, answer: Any) -> EvaluatedRow:
        return EvaluatedRow(example.value, answer, None)

    def statistics(self, example: Example, answer: Any) -> tuple[float, ...]:
        wanted, found = example.value, float(answer)
        return 1.0, wanted, found, wanted**2, found**2, wanted * found

    def metric_of(self, sums: Floats) -> Floats:
        rows, wanted, found, *squares = np.moveaxis(sums, -1, 0)
        rows = np.maximum(rows, 1)
        of_wanted, of_found, of_both = (one / rows for one in squares)
        wanted, found = wanted / rows, found / rows
        variances = (of_wanted - wanted**2) * (of_found - found**2)
        covariance = of_both - wanted * found
        correlation: Floats = np.zeros_like(rows)
        np.divide(covariance, np.sqrt(variances.clip(0)), out=correlation, where=variances > 0)
        return correlation

    def compute_metrics(
        self, examples: Sequence[Example], answers: Sequence[Any], train: Sequence[Example]
    ) -> dict[str, Any]:
        return regression_metrics([e.value for e in examples], list(answers), train=[e.value for e in train])

    def serving_head(self, head: Head) -> Head:
        return Head(head.weight * self.deviation, head.bias * self.deviation + self.mean, head.pooling)

    def training_head(self, head: Head) -> Head:
        return Head(head.weight / self.deviation, (head.bias - self.mean) / self.deviation, head.pooling)

    def class_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        return {}

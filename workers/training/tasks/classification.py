"""One label out of several, for a text or for two."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inference.hplm.hplm import CLASSIFICATION
from inference.hplm.predictions import class_prediction
from inference.hplm.tokenization import Encoding
from workers.training.datasets import Example
from workers.training.evaluation_answers import Judged
from workers.training.metrics import classification_scores
from workers.training.tasks.base import (
    UNKNOWN,
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

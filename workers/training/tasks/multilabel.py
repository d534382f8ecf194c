"""Any number of labels out of several."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.hplm import MULTILABEL
from inference.hplm.predictions import label_set_prediction
from inference.hplm.tokenization import Encoding
from workers.training.datasets import Example
from workers.training.evaluation_answers import Judged
from workers.training.metrics import label_set_scores
from workers.training.tasks.base import Outputs, Target, as_trained, distinct_labels, encode_texts


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

"""A number for a text or for two."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.errors import HplmError
from inference.hplm.heads import Head
from inference.hplm.hplm import FIXED_LABELS, REGRESSION
from inference.hplm.tokenization import Encoding
from workers.training.datasets import Example
from workers.training.evaluation_answers import Judged
from workers.training.metrics import regression_scores
from workers.training.tasks.base import Outputs, Target, encode_texts


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

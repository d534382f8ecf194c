"""The interface of a kind of task, and what several kinds share."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from inference.errors import HplmError
from inference.hplm.heads import Head
from inference.hplm.upload import Upload
from inference.text.tokenization import Encoding, TextTokenizer
from workers.training.datasets import Example

IGNORE_INDEX = -100
"""The target where the label is unknown; the loss leaves it out."""
Target = npt.NDArray[Any]
Outputs = npt.NDArray[np.floating[Any]]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ExampleOutputs:
    """An example, its encoded sequences, and the head's outputs for each: [C] of a text, [T, C] of tokens."""

    example: Example
    encodings: Sequence[Encoding]
    outputs: Sequence[Outputs]


@dataclass(frozen=True, slots=True)
class EvaluatedRow:
    """The expected and the predicted answer to one example, both as JSON.

    right, score (the confidence that is served, 0 to 1): None for numbers. A generated text has no `right`;
    its score is its ROUGE-L with the expected text.
    """

    gold: Any
    answer: Any
    right: bool | None
    score: float | None = None


class TaskKind(ABC):
    """A kind of task with the labels of one model.

    labels: the names of the head's outputs; `fit` learns them from a training split. threshold: of the
    probability from which a multi-label model predicts a label.
    """

    name: ClassVar[str]
    per_token: ClassVar[bool] = False

    def __init__(self, labels: Sequence[str] = (), threshold: float = 0.5) -> None:
        self.labels, self.threshold = list(labels), threshold

    def fit(self, train: Sequence[Example]) -> None:
        """Set `labels` from the training split. Raises HplmError("one_label") for fewer than two."""
        self._set_labels({label for example in train for label in example.labels})

    def _set_labels(self, labels: set[str]) -> None:
        if len(labels) < 2:
            raise HplmError("one_label", "The training split has only one label: there is nothing to learn.")
        self.labels = sorted(labels)

    def encode(self, example: Example, tokenizer: TextTokenizer) -> list[Encoding]:
        """The sequences that the model reads of an example: one, or several windows."""
        return [tokenizer.encode(example.text, example.pair)]

    @abstractmethod
    def target(self, example: Example, encoding: Encoding) -> Target:
        """The training target of one of the example's sequences."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Sequence[Target], class_weights: Tensor | None) -> Tensor:
        """Mean loss of outputs [B, C] or [B, T, C] fp32; class_weights: [C], None for equal weights."""

    @abstractmethod
    def predict(self, outputs: ExampleOutputs) -> Any:
        """The model's answer to an example."""

    @abstractmethod
    def evaluate(self, example: Example, answer: Any) -> EvaluatedRow:
        """Compare an answer with the expected one."""

    @abstractmethod
    def compute_metrics(
        self, examples: Sequence[Example], answers: Sequence[Any], train: Sequence[Example]
    ) -> dict[str, Any]:
        """{metric, value, …} of the predictions, with those of baselines fitted on `train`."""

    @abstractmethod
    def statistics(self, example: Example, answer: Any) -> tuple[float, ...]:
        """What an answer adds to the sums [K] that the metric is computed from."""

    def metric_of(self, sums: Floats) -> Floats:
        """The metric `value` [...] of sums [..., K] of `statistics`: by default the first over the second."""
        return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))

    def serving_head(self, head: Head) -> Head:
        """The trained head as it is stored and served."""
        return head

    def training_head(self, head: Head) -> Head:
        """The inverse of `serving_head`: a stored head as training continues from it."""
        return head

    def class_counts(self, examples: Sequence[Example]) -> dict[str, int]:
        """How often each class occurs; empty for regression."""
        return dict(Counter(label for example in examples for label in example.labels).most_common())


def stacked(targets: Sequence[Target], device: torch.device) -> Tensor:
    """The targets as one tensor on the device."""
    return Upload(device).add(np.stack(targets)).tensor


def cross_entropy(outputs: Tensor, target: Target, class_weights: Tensor | None) -> Tensor:
    """Mean over the known targets of outputs [N, C] and target [N]; 0 when none is known."""
    upload = Upload(outputs.device)
    # Selected on the host: a GPU would have to be asked how many there are.
    wanted, known = upload.add(target), upload.add(target[target != IGNORE_INDEX])
    total = functional.cross_entropy(
        outputs, wanted.tensor, weight=class_weights, ignore_index=IGNORE_INDEX, reduction="sum"
    )
    if class_weights is None:
        return total / max(1, len(known.array))
    return total / class_weights[known.tensor].sum().clamp(min=1e-6)

"""What tells one kind of task from another when an hPLM learns it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn import functional

from inference.hplm.errors import HplmError
from inference.hplm.heads import Head
from inference.hplm.tokenization import Encoding, TextTokenizer
from workers.training.datasets import Example

UNKNOWN = -100
"""The target of a place whose label the model does not know; it is left out of the loss."""
Target = npt.NDArray[Any]
Outputs = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Judged:
    """An expected and a given answer, both as JSON has them, and what is to be said of them."""

    gold: Any
    answer: Any
    right: bool | None
    score: float | None


class TaskKind(Protocol):
    """A kind of task. Outputs are [C] of a text or [T, C] of its tokens, as the head's pooling has it."""

    name: str
    per_token: bool

    def labels(self, examples: Sequence[Example]) -> list[str]:
        """The names of the head's outputs, learnt from the training split. HplmError("one_label") when there
        is nothing to tell apart."""

    def encode(self, example: Example, tokenizer: TextTokenizer) -> list[Encoding]:
        """The sequences that the model reads of one example: one, or several windows."""

    def target(self, example: Example, encoding: Encoding, labels: Sequence[str]) -> Target:
        """What the outputs of one of these sequences should say."""

    def loss(self, outputs: Tensor, targets: Sequence[Target], weights: Tensor | None) -> Tensor:
        """Mean loss of outputs [B, C] or [B, T, C] fp32; `weights` [C] of the classes where they count
        unequally."""

    def decode(
        self,
        example: Example,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
        threshold: float,
    ) -> Any:
        """What the hPLM answers to an example, from the outputs of all its sequences."""

    def judged(
        self,
        example: Example,
        answer: Any,
        outputs: Sequence[Outputs],
        encodings: Sequence[Encoding],
        labels: Sequence[str],
    ) -> Judged:
        """The answer that was decoded from these outputs beside the expected one, as they are kept."""

    def scores(
        self, examples: Sequence[Example], answers: Sequence[Any], seen: Sequence[Example]
    ) -> dict[str, Any]:
        """{metric, value, …} of the answers, with the trivial answers learnt on `seen` beside them."""

    def stored(self, head: Head) -> Head:
        """The head as it is stored, from the one that was trained."""

    def resumed(self, head: Head) -> Head:
        """The head to go on training from, from one that was stored: undoes `stored`."""

    def counts(self, examples: Sequence[Example]) -> dict[str, int]:
        """How often each class occurs; empty where there are none."""


def distinct_labels(examples: Sequence[Example]) -> list[str]:
    """The labels of the examples, sorted; HplmError("one_label") when there are fewer than two."""
    return require_two({label for example in examples for label in example.labels})


def require_two(labels: set[str]) -> list[str]:
    """The labels, sorted; HplmError("one_label") when there are fewer than two."""
    if len(labels) < 2:
        raise HplmError("one_label", "The training split has only one label: there is nothing to learn.")
    return sorted(labels)


def as_trained(head: Head) -> Head:
    """The same head."""
    return head


def encode_texts(example: Example, tokenizer: TextTokenizer) -> list[Encoding]:
    """The one sequence of a text, or of two."""
    return [tokenizer.encode(example.text, example.pair)]


def cross_entropy(outputs: Tensor, wanted: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean over the known targets of outputs [N, C] and wanted [N]; 0 when none is known."""
    total = functional.cross_entropy(outputs, wanted, weight=weights, ignore_index=UNKNOWN, reduction="sum")
    known = wanted[wanted != UNKNOWN]
    return total / (max(1, len(known)) if weights is None else weights[known].sum().clamp(min=1e-6))

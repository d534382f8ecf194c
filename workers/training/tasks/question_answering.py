"""The stretch of a context that answers a question."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from inference.hplm.hplm import FIXED_LABELS, QUESTION_ANSWERING
from inference.hplm.predictions import answer_prediction
from inference.hplm.tokenization import Encoding, TextTokenizer
from workers.training.datasets import Example
from workers.training.evaluation_answers import Judged
from workers.training.metrics import answer_scores, is_answer
from workers.training.tasks.base import Outputs, Target, as_trained


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

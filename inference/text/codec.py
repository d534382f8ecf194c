"""One model's texts as token ids, and its outputs as results."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from inference.cascade.answer_plan import IN_FULL, AnswerPlan, answer_plan
from inference.cascade.dispatcher import AnswerPolicy
from inference.cascade.profile import CascadeProfile
from inference.text.encodings import NO_TASK, EncodedInput, InferInput, encode_inputs
from inference.text.outputs import OutputNames, Outputs
from inference.text.prediction_result import PredictionResult
from inference.text.tasks import OUTPUT_KINDS
from inference.text.tokenization import TextTokenizer

EMBEDDING: Final = "embedding"


@dataclass(frozen=True, slots=True, eq=False)
class TextCodec:
    """Of one version of a model. names: what its outputs mean, None where embeddings are asked for. cascade:
    its calibration and what was measured of its levels, where it has that. tables: whether its root has
    lookup tables; without them every text is computed in full."""

    tokenizer: TextTokenizer
    names: OutputNames | None
    cascade: CascadeProfile | None = None
    tables: bool = True

    @property
    def task(self) -> str:
        """For which inputs are read."""
        return self.names.task if self.names else NO_TASK

    def plan(self, policy: AnswerPolicy, target: float | None = None) -> AnswerPlan:
        """What the policy means for this model."""
        if not self.tables:
            return IN_FULL
        kind = OUTPUT_KINDS[self.names.task] if self.names else None
        table_only = self.names is not None and self.names.table_only
        return answer_plan(policy, kind, self.cascade, target, table_only=table_only)

    def encode(self, inputs: Sequence[InferInput]) -> tuple[EncodedInput, ...]:
        """As `encode_inputs`."""
        return encode_inputs(inputs, self.tokenizer, task=self.task)

    def results(
        self, encoded: Sequence[EncodedInput], outputs: Sequence[Outputs], plan: AnswerPlan = IN_FULL
    ) -> list[dict[str, Any]]:
        """The result of each input, as JSON, from the outputs for all their encodings, in order. plan: by
        which they were asked for.

        Raises ValueError where the outputs are not those of these encodings.
        """
        left = iter(outputs)
        results = [self._result(each, list(islice(left, len(each.encodings))), plan) for each in encoded]
        if next(left, None) is not None:
            raise ValueError("there are more outputs than encodings")
        return results

    def _result(self, encoded: EncodedInput, outputs: list[Outputs], plan: AnswerPlan) -> dict[str, Any]:
        if len(outputs) != len(encoded.encodings):
            raise ValueError("there are fewer outputs than encodings")
        if self.names is None:
            return embedding_result(encoded, outputs)
        return PredictionResult(self.names, self.cascade, plan).of(encoded, outputs)


def embedding_result(encoded: EncodedInput, outputs: Sequence[Outputs]) -> dict[str, Any]:
    """The text as a vector, in base64 of little-endian fp32: what is shorter than as numbers, and exact."""
    vector = b64encode(outputs[0].values.astype("<f4").tobytes()).decode()
    return {EMBEDDING: vector, "truncated": encoded.truncated}

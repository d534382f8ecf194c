"""One model's texts as token ids, and its outputs as results."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from inference.text.encodings import NO_TASK, EncodedInput, InferInput, encode_inputs
from inference.text.results import OutputNames, Outputs, embedding_result, prediction_result
from inference.text.tokenization import TextTokenizer


@dataclass(frozen=True, slots=True, eq=False)
class TextCodec:
    """Of one version of a model. names: what its outputs mean, None where embeddings are asked for."""

    tokenizer: TextTokenizer
    names: OutputNames | None

    @property
    def task(self) -> str:
        """For which inputs are read."""
        return self.names.task if self.names else NO_TASK

    def encode(self, inputs: Sequence[InferInput]) -> tuple[EncodedInput, ...]:
        """As `encode_inputs`."""
        return encode_inputs(inputs, self.tokenizer, task=self.task)

    def results(self, encoded: Sequence[EncodedInput], outputs: Sequence[Outputs]) -> list[dict[str, Any]]:
        """The result of each input, as JSON, from the outputs for all their encodings, in order.

        Raises ValueError where the outputs are not those of these encodings.
        """
        left = iter(outputs)
        results = [self._result(each, list(islice(left, len(each.encodings)))) for each in encoded]
        if next(left, None) is not None:
            raise ValueError("there are more outputs than encodings")
        return results

    def _result(self, encoded: EncodedInput, outputs: list[Outputs]) -> dict[str, Any]:
        if len(outputs) != len(encoded.encodings):
            raise ValueError("there are fewer outputs than encodings")
        if self.names is None:
            return embedding_result(encoded, outputs)
        return prediction_result(encoded, outputs, self.names)

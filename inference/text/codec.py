"""One model's texts as token ids, and its outputs as results."""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inference.errors import HplmError
from inference.text.encodings import NO_TASK, EncodedInput, InferInput, encode_inputs
from inference.text.predictions import predict
from inference.text.tasks import DEFAULT_THRESHOLD, PER_TOKEN, TASKS, Task
from inference.text.token_levels import tokens_of
from inference.text.tokenization import TextTokenizer

EMBEDDING: Final = "embedding"
HPLM_FILE: Final = "hplm.json"


@dataclass(frozen=True, slots=True)
class OutputNames:
    """What the outputs of a model mean: its task, and the label of each. threshold: the probability from
    which a label of a multi-label model is predicted."""

    task: Task
    labels: tuple[str, ...]
    threshold: float = DEFAULT_THRESHOLD

    @classmethod
    def load(cls, folder: Path) -> "OutputNames":
        """From the hplm.json of a version's artifact. Raises HplmError(corrupt_artifact)."""
        try:
            metadata = json.loads((folder / HPLM_FILE).read_bytes())
            task, labels, threshold = metadata["task"], metadata["labels"], metadata["threshold"]
            if task not in TASKS:
                raise ValueError(f"unknown task {task!r}")
            return cls(task, tuple(map(str, labels)), float(threshold))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise HplmError("corrupt_artifact", f"{HPLM_FILE} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """What came of one encoding of T tokens. values fp32: the flat outputs of the head, or of an embedding
    the mean state [d]. levels [T] uint8: how each token was made, where that was asked for."""

    values: NDArray[np.float32]
    levels: NDArray[np.uint8] | None = None


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


def embedding_result(encoded: EncodedInput, outputs: Sequence[Outputs]) -> dict[str, Any]:
    """The text as a vector of length 1, in base64 of little-endian fp32: what is shorter than as numbers, and
    exact."""
    mean = outputs[0].values
    length = float(np.linalg.norm(mean.astype(np.float64)))
    vector = b64encode((mean / (length or 1.0)).astype("<f4").tobytes()).decode()
    return {EMBEDDING: vector, "truncated": encoded.truncated}


def prediction_result(
    encoded: EncodedInput, outputs: Sequence[Outputs], names: OutputNames
) -> dict[str, Any]:
    """The prediction of the model's task, from the outputs of each of the input's encodings; whether the
    input was cut to the root's maximum; and how each token was made, where that was asked for."""
    prediction = predict(
        names.task,
        names.labels,
        [_by_token(each.values, names) for each in outputs],
        encoded.encodings,
        encoded.given.text,
        encoded.given.text_pair,
        threshold=names.threshold,
    )
    result = {**prediction.to_json(), "truncated": encoded.truncated}
    levels = [each.levels for each in outputs if each.levels is not None]
    return {**result, "tokens": tokens_of(names.task, encoded.encodings, levels)} if levels else result


def _by_token(values: NDArray[np.float32], names: OutputNames) -> NDArray[np.float32]:
    return values.reshape(-1, len(names.labels)) if names.task in PER_TOKEN else values

"""What a client is told about one input."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inference.engine.rows import Answered
from inference.hplm.predictions import predict
from inference.serving.explaining import tokens_of
from inference.serving.reading import Reading

EMBEDDING: Final = "embedding"


def embedded(mean: NDArray[np.float32]) -> str:
    """The vector at length 1, as base64 of little-endian fp32: what is shorter than as numbers, and exact."""
    length = float(np.linalg.norm(mean.astype(np.float64)))
    return b64encode((mean / (length or 1.0)).astype("<f4").tobytes()).decode()


def result_of(reading: Reading, answers: Sequence[Answered]) -> dict[str, Any]:
    """The prediction of the model's task, from the answer to each of the input's encodings; whether the input
    was cut to the root's maximum; and how each token was made, where that was asked for."""
    first = answers[0]
    if first.mean is not None:
        return {EMBEDDING: embedded(first.mean), "truncated": reading.truncated}
    prediction = predict(
        first.task,
        first.labels,
        [answer.logits for answer in answers],
        reading.encodings,
        reading.given.text,
        reading.given.text_pair,
        threshold=first.threshold,
    )
    result = {**prediction.to_json(), "truncated": reading.truncated}
    given = [answer.given for answer in answers if answer.given is not None]
    return {**result, "tokens": tokens_of(first.task, reading.encodings, given)} if given else result

"""What a client is told about one input."""

from collections.abc import Sequence
from typing import Any

from inference.engine.rows import Answered
from inference.hplm.predictions import predict
from inference.serving.explaining import tokens_of
from inference.serving.reading import Reading


def result_of(reading: Reading, answers: Sequence[Answered]) -> dict[str, Any]:
    """The prediction of the hPLM's task, from the answer to each of the input's encodings; whether the input
    was cut to the root's maximum; and how each token was made, where that was asked for."""
    first = answers[0]
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

"""What a client is told about one text."""

from typing import Any

from inference.engine.rows import Answered
from inference.hplm.predictions import predict
from inference.hplm.tokenization import Encoding


def result_of(text: str, encoding: Encoding, answer: Answered) -> dict[str, Any]:
    """Label and scores, or spans; and whether the text was cut to the root's maximum."""
    prediction = predict(answer.task, answer.labels, answer.logits, encoding, text)
    return {**prediction.to_json(), "truncated": encoding.truncated}

"""Encodings as messages carry them, and outputs as they come back."""

from collections.abc import Iterable

import numpy as np

from inference.queueing.messages import SequenceOutput, TokenSequence
from inference.text.encodings import EncodedInput, outputs_at
from inference.text.results import Outputs
from inference.text.tokenization import Encoding


def token_sequences(encoded: Iterable[EncodedInput], *, task: str) -> tuple[TokenSequence, ...]:
    """One for each encoding of each input, in their order."""
    return tuple(_sequence(encoding, task) for each in encoded for encoding in each.encodings)


def outputs_of(received: Iterable[SequenceOutput]) -> list[Outputs]:
    """What came of each sequence. Raises ValueError for what is no list of numbers."""
    return [
        Outputs(
            np.frombuffer(output.values, "<f4"),
            np.frombuffer(output.levels, np.uint8) if output.levels else None,
        )
        for output in received
    ]


def _sequence(encoding: Encoding, task: str) -> TokenSequence:
    asked = outputs_at(task, encoding)
    return TokenSequence(
        ids=encoding.ids.astype("<i4").tobytes(),
        types=encoding.types.astype(np.uint8).tobytes() if encoding.types.any() else b"",
        outputs_at=None if asked is None else asked.astype("<i4").tobytes(),
    )

"""What a client is told about how each token of an input was made."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inference.text.tasks import QUESTION_ANSWERING
from inference.text.tokenization import Encoding

LEVEL_NAMES: Final = ("trigram", "bigram", "unigram", "computed")
"""By level: a table held the token's fragment, a part of it, or its uni-gram alone; or it was computed."""
TEXTS: Final = ("text", "text_pair")
QUESTION: Final = ("question", "context")


def tokens_of(
    task: str, encodings: Sequence[Encoding], given: Sequence[NDArray[np.uint8]]
) -> list[dict[str, Any]]:
    """The tokens of an input in their order, without the special ones: which of its texts one is `of`, its
    characters there, and what it was given. What several windows read is told as the first one read it."""
    names = QUESTION if task == QUESTION_ANSWERING else TEXTS
    told_until = [0, 0]
    found: list[list[dict[str, Any]]] = [[], []]
    for encoding, levels in zip(encodings, given, strict=True):
        begin = list(told_until)
        for number, (start, end), level in _tokens(encoding, levels):
            if start >= begin[number]:
                token = {"of": names[number], "start": start, "end": end, "level": LEVEL_NAMES[level]}
                found[number].append(token)
                told_until[number] = max(told_until[number], end)
    return [*found[0], *found[1]]


def _tokens(encoding: Encoding, levels: NDArray[np.uint8]) -> Iterator[tuple[int, tuple[int, int], int]]:
    """Of each token that is not special: the number of its text, its characters, its level."""
    for number, offsets, level in zip(
        encoding.sequence.tolist(), encoding.offsets.tolist(), levels.tolist(), strict=True
    ):
        if number >= 0:
            yield number, offsets, level

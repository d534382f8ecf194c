"""From inputs to token ids: one sequence each, or several windows over a context that is too long for one."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inference.errors import HplmError
from inference.text.encode import CHARACTERS_PER_TOKEN, TooManyTokens
from inference.text.tasks import QUESTION_ANSWERING, TAGGING
from inference.text.tokenization import Encoding, TextTokenizer

WINDOWS: Final = 64
"""Windows read of one context at most: about 20,000 tokens where 512 fit."""
MAX_TOKENS: Final = 1 << 17
"""Tokens of one request at most: windows of many long contexts are more than a process should hold."""
NO_TASK: Final = ""
"""A text is read as it is, whatever the model was trained for: an embedding is asked for."""


@dataclass(frozen=True, slots=True)
class InferInput:
    """One input: a text, or a pair of texts. Of a question answering, the question and its context."""

    text: str
    text_pair: str | None = None

    def digest(self, size: int) -> bytes:
        """`size` bytes of BLAKE2b of the texts. They do not depend on the model or the process."""
        pair = "" if self.text_pair is None else f"\0{self.text_pair}"
        return blake2b(f"{self.text}{pair}".encode(), digest_size=size).digest()


@dataclass(frozen=True, slots=True, eq=False)
class EncodedInput:
    """One input and its encodings, at least one; several are windows over one context. ``truncated``: not all
    of the input was read."""

    given: InferInput
    encodings: tuple[Encoding, ...]
    truncated: bool


def encode_inputs(
    inputs: Sequence[InferInput], tokenizer: TextTokenizer, *, task: str
) -> tuple[EncodedInput, ...]:
    """Encode inputs as the task was trained. HplmError: missing_field (a question without a context),
    invalid_encoding, too_many_inputs (more than MAX_TOKENS tokens)."""
    if task == QUESTION_ANSWERING:
        return _encode_contexts(inputs, tokenizer)
    if all(given.text_pair is None for given in inputs):
        encodings = tokenizer.encode_all([given.text for given in inputs])
    else:
        encodings = [tokenizer.encode(given.text, given.text_pair) for given in inputs]
    return tuple(
        EncodedInput(given, (encoding,), encoding.truncated)
        for given, encoding in zip(inputs, encodings, strict=True)
    )


def outputs_at(task: str, encoding: Encoding) -> NDArray[np.int64] | None:
    """The positions of the tokens whose outputs the prediction reads: of tagging, the first of each word.
    None: all there are."""
    return np.flatnonzero(encoding.word_starts) if task == TAGGING else None


def _encode_contexts(inputs: Sequence[InferInput], tokenizer: TextTokenizer) -> tuple[EncodedInput, ...]:
    found, tokens = [], 0
    for given in inputs:
        found.append(_encode_windows(given, tokenizer))
        tokens += sum(map(len, found[-1].encodings))
        if tokens > MAX_TOKENS and len(inputs) > 1:
            message = f"The contexts have more than {MAX_TOKENS:,} tokens together; send fewer inputs."
            raise TooManyTokens(message, tokens_read=tokens, code="too_many_inputs")
    return tuple(found)


def _encode_windows(given: InferInput, tokenizer: TextTokenizer) -> EncodedInput:
    if given.text_pair is None:
        raise HplmError("missing_field", "a question needs a context to be answered from")
    context = given.text_pair[: WINDOWS * CHARACTERS_PER_TOKEN * tokenizer.max_tokens]
    windows = tokenizer.windows(given.text, context, WINDOWS)
    unread = len(windows) > WINDOWS or len(context) < len(given.text_pair)
    return EncodedInput(given, tuple(windows[:WINDOWS]), unread or windows[0].truncated)

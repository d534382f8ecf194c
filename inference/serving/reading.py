"""From inputs to token ids: one sequence each, or several windows over a context that is too long for one."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference.hplm.errors import HplmError
from inference.hplm.hplm import QUESTION_ANSWERING
from inference.hplm.tokenization import Encoding, TextTokenizer
from inference.queueing.messages import InferInput

WINDOWS = 64
"""Windows read of one context at most: about 20,000 tokens where 512 fit."""
CHARACTERS_PER_TOKEN = 16
PLAIN = ""
"""No task: a text is read as it is, whatever the model was trained for."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One input and its encodings, at least one; several are windows over one context. ``truncated``: not all
    of the input was read."""

    given: InferInput
    encodings: tuple[Encoding, ...]
    truncated: bool


def read(inputs: Sequence[InferInput], tokenizer: TextTokenizer, *, task: str) -> list[Reading]:
    """Encode inputs as the task was trained. HplmError: missing_field (a question without a context),
    invalid_encoding."""
    if task == QUESTION_ANSWERING:
        return [_read_windows(given, tokenizer) for given in inputs]
    if all(given.text_pair is None for given in inputs):
        encodings = tokenizer.encode_all([given.text for given in inputs])
    else:
        encodings = [tokenizer.encode(given.text, given.text_pair) for given in inputs]
    return [
        Reading(given, (encoding,), encoding.truncated)
        for given, encoding in zip(inputs, encodings, strict=True)
    ]


def _read_windows(given: InferInput, tokenizer: TextTokenizer) -> Reading:
    if given.text_pair is None:
        raise HplmError("missing_field", "a question needs a context to be answered from")
    context = given.text_pair[: WINDOWS * CHARACTERS_PER_TOKEN * tokenizer.max_tokens]
    windows = tokenizer.windows(given.text, context)
    unread = len(windows) > WINDOWS or len(context) < len(given.text_pair)
    return Reading(given, tuple(windows[:WINDOWS]), unread or windows[0].truncated)

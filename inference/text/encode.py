"""Tokenizes texts while other threads run: the tokenizers library's `encode` holds Python's lock until it is
done, its `encode_batch` does not."""

from collections.abc import Sequence
from typing import Final

import tokenizers

from inference.errors import HplmError

CHARACTERS_PER_TOKEN: Final = 16
"""Of a long text, this many characters are tokenized first for each token that fits."""
GROWTH: Final = 4
"""If that is too little, so many times as many are tokenized next."""


class TooManyTokens(HplmError):
    """Texts that are refused for their length. tokens_read: so many were read to find that out. tokens: all
    that the text has; None if not all were read."""

    def __init__(
        self, message: str, *, tokens_read: int, tokens: int | None = None, code: str = "invalid_field"
    ) -> None:
        super().__init__(code, message)
        self.tokens_read, self.tokens = tokens_read, tokens


def encode_batch(
    tokenizer: tokenizers.Tokenizer, texts: Sequence[str | list[str]], *, is_pretokenized: bool = False
) -> list[tokenizers.Encoding]:
    """The tokens of the texts, or of lists of words, without special tokens. Raises
    HplmError(invalid_encoding) for lone surrogates."""
    try:
        return tokenizer.encode_batch(list(texts), is_pretokenized=is_pretokenized, add_special_tokens=False)
    except TypeError as error:
        message = "the text holds a lone surrogate, which is not Unicode text"
        raise HplmError("invalid_encoding", message) from error


def token_ids(
    tokenizer: tokenizers.Tokenizer, text: str, *, add_special_tokens: bool, limit: int | None = None
) -> list[int]:
    """The ids of a text. Raises TooManyTokens for more than ``limit``.

    Of a text with many characters for so few tokens only the beginning is read first. Twice the limit there
    are too many, whatever follows: the rest may change the last tokens of the beginning, not half of them.
    """
    read, end = 0, len(text) if limit is None else CHARACTERS_PER_TOKEN * limit
    while True:
        # Without offsets, which nobody needs, it takes a quarter of the time.
        [encoding] = tokenizer.encode_batch_fast([text[:end]], add_special_tokens=add_special_tokens)
        read += len(encoding)
        is_whole = end >= len(text)
        if limit is not None and len(encoding) > (limit if is_whole else 2 * limit):
            found = len(encoding) if is_whole else None
            raise TooManyTokens(f"the text has more than {limit:,} tokens", tokens_read=read, tokens=found)
        if is_whole:
            ids: list[int] = encoding.ids
            return ids
        end *= GROWTH

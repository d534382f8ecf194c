"""A tokenizer of bytes."""

from collections.abc import Sequence

import tokenizers
from tokenizers import decoders, models, pre_tokenizers


def byte_tokenizer(*specials: str, merges: Sequence[tuple[str, str]] = ()) -> tokenizers.Tokenizer:
    """A byte-level BPE with a token for each byte, for each merge, and for each special text."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, merges)]
    tokenizer = tokenizers.Tokenizer(models.BPE({piece: at for at, piece in enumerate(pieces)}, [*merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([*specials])
    return tokenizer

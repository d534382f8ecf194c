"""Turns token ids into text while they are generated, without ever giving out half a character."""

import codecs
import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import tokenizers

from inference.errors import HplmError

_BYTE_TOKEN: Final = re.compile("<0x([0-9A-Fa-f]{2})>")
"""How tokenizers with a byte fallback, such as SentencePiece's, spell a byte that no other token has."""
_PLAIN_BYTES: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
"""The bytes that a byte-level vocabulary spells as the character of the same number."""


class TextStream(Protocol):
    """The text of one completion."""

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that these tokens complete."""

    def finish(self) -> str:
        """The rest, once no more tokens follow: an incomplete character is U+FFFD."""


class Detokenizer:
    """Text of a tokenizer's tokens. Thread-safe; one for each tokenizer.

    Special tokens, and ids that the tokenizer does not have, are no text.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        """Raises HplmError(unsupported_checkpoint) for a byte-level decoder that is combined with others."""
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder().values()
        self._special_tokens = frozenset(token.content for token in added if token.special)
        self._is_byte_level = _is_byte_level(tokenizer)

    def stream(self, after: Sequence[int] = ()) -> TextStream:
        """A new stream. The texts of its pushes and its finish are together what the tokenizer decodes all
        its tokens to; with ``after``, the ids of a prompt: what the prompt's text is continued by."""
        if self._is_byte_level:
            return _ByteStream(self)
        return _WindowStream(self, self._tokenizer, after)

    def token(self, token_id: int) -> str | None:
        """The token as the vocabulary spells it; None if it is no text."""
        token = self._tokenizer.id_to_token(token_id)
        return None if token is None or token in self._special_tokens else token

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of a token within a text. Those of a special token are its name's."""
        token = self._tokenizer.id_to_token(token_id)
        if token is None:
            return b""
        if token in self._special_tokens:
            return token.encode()
        if self._is_byte_level:
            return byte_level_bytes(token)
        if (byte := _BYTE_TOKEN.fullmatch(token)) is not None:
            return bytes.fromhex(byte[1])
        once: str = self._tokenizer.decode([token_id])
        twice: str = self._tokenizer.decode([token_id, token_id])
        return twice[len(once) :].encode()  # at the beginning of a text it may lack its space


class _ByteStream:
    """Of byte-level tokens, each of which stands for bytes whatever its company."""

    def __init__(self, detokenizer: Detokenizer) -> None:
        self._detokenizer = detokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_ids: Iterable[int]) -> str:
        tokens = filter(None, map(self._detokenizer.token, token_ids))
        return self._decoder.decode(b"".join(map(byte_level_bytes, tokens)))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class _WindowStream:
    """Of tokens whose text may depend on whether others precede them: decodes the new tokens together with
    those of the push before, and gives out the difference.

    The library's DecodeStream does this too, but fails where bytes that are not UTF-8 follow bytes that are
    (the decoder then replaces both), and takes a token after a special one for the first.
    """

    def __init__(
        self, detokenizer: Detokenizer, tokenizer: tokenizers.Tokenizer, after: Sequence[int]
    ) -> None:
        self._detokenizer = detokenizer
        self._tokenizer = tokenizer
        self._known = self._visible(after[-_CONTEXT:])
        """Tokens whose text was given out, and from ``_given`` on those whose text was not."""
        self._given = len(self._known)

    def push(self, token_ids: Iterable[int]) -> str:
        self._known += self._visible(token_ids)
        if self._given == len(self._known) or self._ends_within_bytes():
            return ""
        return self.finish()

    def finish(self) -> str:
        given = self._decode(self._known[: self._given])
        new = self._decode(self._known)[len(given) :]
        if new:
            self._known = self._known[self._given :]
        self._given = len(self._known)
        return new

    def _ends_within_bytes(self) -> bool:
        """Whether the last token is a byte: the next one decides whether it is part of a character."""
        token = self._detokenizer.token(self._known[-1])
        return token is not None and _BYTE_TOKEN.fullmatch(token) is not None

    def _visible(self, token_ids: Iterable[int]) -> list[int]:
        return [token_id for token_id in token_ids if self._detokenizer.token(token_id) is not None]

    def _decode(self, token_ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(token_ids)
        return text


class TokenOffsets:
    """Where the tokens of one stream begin in its text, in characters."""

    def __init__(self) -> None:
        self._written = 0
        self._unwritten = b""
        """The bytes of the tokens since, which the stream holds back."""

    def push(self, token: bytes, text: str) -> int:
        """The character that the next token begins, or goes on with. ``token``: its bytes; ``text``: what the
        stream gave out when it got the token."""
        before = self._written + len(_whole_characters(self._unwritten))
        self._written, self._unwritten = (
            (self._written + len(text), b"") if text else (self._written, self._unwritten + token)
        )
        if token[:1] in _CONTINUATION:
            return before
        after = self._written + len(_whole_characters(self._unwritten))
        return max(before, after - len(_whole_characters(token)))


_CONTINUATION: Final = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))
"""The bytes that only go on with a character."""


def _whole_characters(content: bytes) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(content)


_CONTEXT: Final = 64
"""Tokens of a prompt that are looked at for one that is text."""


def _is_byte_level(tokenizer: tokenizers.Tokenizer) -> bool:
    decoder = json.loads(tokenizer.to_str())["decoder"] or {}
    steps = {step["type"] for step in decoder.get("decoders", [decoder]) if step} - {"Fuse"}
    if "ByteLevel" in steps and len(steps) > 1:
        message = f"a tokenizer whose decoder combines {', '.join(sorted(steps))} is not supported"
        raise HplmError("unsupported_checkpoint", message)
    return "ByteLevel" in steps


def byte_level_bytes(token: str) -> bytes:
    """The bytes of a token as byte-level vocabularies spell it (GPT-2, openai/gpt-2 encoder.py): a character
    for each byte. A token with any other character, such as an added one, is its own UTF-8."""
    try:
        return bytes(map(_BYTES.__getitem__, token))
    except KeyError:
        return token.encode()


def _byte_level_alphabet() -> dict[str, int]:
    """The byte of each character: printable ones stand for themselves, the others for the characters from
    U+0100 on, in order."""
    others = [byte for byte in range(256) if byte not in _PLAIN_BYTES]
    alphabet = {chr(byte): byte for byte in _PLAIN_BYTES}
    return alphabet | {chr(0x100 + number): byte for number, byte in enumerate(others)}


_BYTES: Final = _byte_level_alphabet()

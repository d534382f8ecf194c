"""Makes a fast tokenizer of a SentencePiece model, as DeBERTa-v2 and -v3 publish it (`spm.model`)."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from inference.errors import HplmError
from inference.text.special_tokens import BERT_SPECIAL_TOKENS

SENTENCEPIECE_FILE: Final = "spm.model"
MAX_BYTES: Final = 64 * 1024 * 1024
UNIGRAM: Final = 1
Value = int | bytes


@dataclass(frozen=True, slots=True)
class SentencePieceModel:
    """A uni-gram model: pieces with their log probabilities, the number of the unknown piece, and the
    compiled map that normalises characters (empty: none)."""

    pieces: list[tuple[str, float]]
    unknown: int
    character_map: bytes

    @classmethod
    def read(cls, path: Path) -> "SentencePieceModel":
        """Read a file. Raises HplmError(unsupported_checkpoint) for damaged files and other kinds."""
        if path.stat().st_size > MAX_BYTES:
            raise _unsupported(path, f"is larger than {MAX_BYTES // 1024**2} MB")
        try:
            fields = list(_fields(path.read_bytes()))
            trainer, normalizer = (
                dict(_fields(next((_bytes(value) for number, value in fields if number == wanted), b"")))
                for wanted in (2, 3)
            )
            pieces = [_piece(_bytes(value)) for number, value in fields if number == 1]
            unknown, character_map = trainer.get(40, 0), _bytes(normalizer.get(2, b""))
        except (ValueError, struct.error) as error:
            raise _unsupported(path, f"is damaged: {error}") from error
        if trainer.get(3, UNIGRAM) != UNIGRAM:
            raise _unsupported(path, "is no uni-gram model")
        if not isinstance(unknown, int) or not 0 <= unknown < len(pieces):
            raise _unsupported(path, "has no piece for unknown characters")
        return cls(pieces, unknown, character_map)


def fast_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """The fast tokenizer of a SentencePiece model, by the tokenizer_config.json beside it.

    Raises HplmError(unsupported_checkpoint).
    """
    model, config = SentencePieceModel.read(path), _tokenizer_config(path.with_name("tokenizer_config.json"))
    try:
        tokenizer = tokenizers.Tokenizer(models.Unigram(model.pieces, model.unknown, byte_fallback=False))
        steps: list[Any] = [normalizers.Lowercase()] if config.get("do_lower_case") else []
        steps.append(normalizers.Strip())
        if model.character_map:
            steps.append(normalizers.Precompiled(model.character_map))
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    except Exception as error:  # the library raises bare Exception
        raise _unsupported(path, f"is damaged: {error}") from error
    tokenizer.normalizer = normalizers.Sequence(steps)
    split: list[Any] = [pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    if config.get("split_by_punct"):
        split.insert(0, pre_tokenizers.Punctuation(behavior="isolated"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split)
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    specials = BERT_SPECIAL_TOKENS
    # The model has all but the mask, which follows its pieces.
    tokenizer.add_special_tokens([specials.pad, specials.cls, specials.sep, specials.unk, specials.mask])
    return tokenizer


def _tokenizer_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _unsupported(path, f"is not JSON: {error}") from error
    return config if isinstance(config, dict) else {}


def _piece(message: bytes) -> tuple[str, float]:
    fields = dict(_fields(message))
    score = fields.get(2, b"\0\0\0\0")
    return _bytes(fields.get(1, b"")).decode(), struct.unpack("<f", _bytes(score))[0]


def _fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """The fields (number, value) of a Protocol Buffers message: numbers of variable length as int, others as
    their bytes. Raises ValueError where it is damaged."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if at + size > len(message):
            raise ValueError("it ends within a field")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a byte, and where the next field begins."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(message):
            raise ValueError("it ends within a number")
        byte, at = message[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number of more than ten bytes")


def _bytes(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    raise ValueError("a number in place of bytes")


def _unsupported(path: Path, reason: str) -> HplmError:
    return HplmError("unsupported_checkpoint", f"{path.name} {reason}")

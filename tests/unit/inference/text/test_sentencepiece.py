"""SentencePiece models become fast tokenizers; damaged ones are refused."""

import json
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from inference.errors import HplmError
from inference.text.sentencepiece import fast_tokenizer
from inference.text.tokenization import TextTokenizer

SPECIALS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
PIECES = [*SPECIALS, "▁", "▁the", "▁river", "s", "▁st", "one", ",", "▁The"]


def varint(number: int) -> bytes:
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def spm_model(*, kind: int = 1, unknown: int = 3) -> bytes:
    """A model as the library writes it."""
    pieces = [
        field(1, field(1, piece.encode()) + varint(2 << 3 | 5) + struct.pack("<f", -float(at)) + field(3, 1))
        for at, piece in enumerate(PIECES)
    ]
    trainer = field(3, kind) + field(4, 12) + field(40, unknown)
    return b"".join(pieces) + field(2, trainer) + field(3, field(1, b"identity"))


def saved(folder: Path, content: bytes, **config: bool) -> Path:
    path = folder / "spm.model"
    path.write_bytes(content)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def tokens(path: Path, text: str) -> list[str]:
    found: list[str] = fast_tokenizer(path).encode(text, add_special_tokens=False).tokens
    return found


def test_a_text_is_split_into_the_pieces_of_the_model(tmp_path: Path) -> None:
    path = saved(tmp_path, spm_model())
    assert tokens(path, "  the  rivers ") == ["▁the", "▁river", "s"]
    assert tokens(path, "the stone,") == ["▁the", "▁st", "one", ","]
    assert tokens(path, "The") == ["▁The"]


def test_the_configuration_beside_it_counts(tmp_path: Path) -> None:
    path = saved(tmp_path, spm_model(), do_lower_case=True, split_by_punct=True)
    assert tokens(path, "The stone,the") == ["▁the", "▁st", "one", "▁", ",", "▁the"]


def test_its_special_tokens_keep_their_numbers_and_the_mask_follows(tmp_path: Path) -> None:
    tokenizer = TextTokenizer.from_file(saved(tmp_path, spm_model()), 16, family="deberta-v2")
    assert [tokenizer.id_of(token) for token in [*SPECIALS, "[MASK]"]] == [0, 1, 2, 3, len(PIECES)]
    assert tokenizer.encode("the zoo").ids.tolist() == [1, 5, 4, 3, 2]
    tokenizer.save(tmp_path / "tokenizer.json")
    again = TextTokenizer.from_file(tmp_path / "tokenizer.json", 16, family="deberta-v2")
    assert again.encode("the stone").ids.tolist() == tokenizer.encode("the stone").ids.tolist()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "unknown"),
        (spm_model(kind=2), "uni-gram"),
        (spm_model(unknown=99), "unknown"),
        (spm_model()[:-3], "damaged"),
        (b"\xff" * 40, "damaged"),
        (field(1, 5), "damaged"),
        (field(1, field(1, b"\xff")), "damaged"),
    ],
)
def test_what_is_no_model_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(HplmError, match=reason) as refused:
        fast_tokenizer(saved(tmp_path, content))
    assert refused.value.code == "unsupported_checkpoint"


@given(at=some.integers(0, len(spm_model()) - 1), byte=some.integers(0, 255))
def test_a_damaged_byte_is_refused_or_harmless(
    at: int, byte: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(spm_model())
    content[at] = byte
    with suppress(HplmError):
        fast_tokenizer(saved(tmp_path_factory.mktemp("damaged"), bytes(content)))

"""Rows as a root reads them."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from tenants.datasets.formats.sampling import RowLocation
from versiontree.tree.tokenized_rows import TokenRow, tokenize_rows

WORDS = ("[UNK]", "[CLS]", "[SEP]", *"abcdefgh")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """Knows eight words of a letter; frames a text as BERT does."""
    made = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.mark.parametrize(
    ("texts", "read", "cut"),
    [
        (("a b z",), "a b [UNK]", ""),
        (("a b c d e f g h",), "a b c d e", "f g h"),
        (("a b c d e f", "g h"), "a b g h", "c d e f"),
        (("a", "b c d e f"), "a b c d", "e f"),
        (("a b c", "d e f"), "a b d e", "c f"),
    ],
)
def test_what_is_too_long_is_cut_the_longer_text_first(
    tokenizer: Path, texts: tuple[str, ...], read: str, cut: str
) -> None:
    place = RowLocation(1, "train")
    (row,) = tokenize_rows([(place, texts)], tokenizer=tokenizer, max_tokens=7)
    assert row == TokenRow(place, read.split(), cut.split(), len(cut.split()))


def test_of_a_long_end_only_the_beginning_is_shown(tokenizer: Path) -> None:
    (row,) = tokenize_rows([(RowLocation(1), ("a " * 50,))], tokenizer=tokenizer, max_tokens=7)
    assert (len(row.tokens), len(row.truncated), row.truncated_count) == (5, 12, 45)

"""What a root's tokenizer makes of texts."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tenants.errors import ErrorCode
from tenants.formats.examples import AnswerExample, Example, TagExample, TextExample
from tenants.formats.fit import corpus_rows, dataset_rows, fit_warnings, tokenizer_fit
from tests.unit.tenants.files import refused


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """One that knows five words and is set to cut after three, as downloaded ones are."""
    words = ["[UNK]", "the", "cat", "sat", "on", "mat"]
    made = Tokenizer(WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.enable_truncation(3)
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_unknown_and_cut_off_rows_are_counted_with_their_numbers(tokenizer: Path) -> None:
    rows = [("the cat sat",), ("die Katze sass",), ("the cat sat on the mat",), ("the", "cat sat on the")]
    fit = tokenizer_fit(rows, tokenizer=tokenizer, max_tokens=4)
    assert (fit.rows, fit.tokens, fit.unknown_tokens, fit.longest) == (4, 17, 3, 6)
    assert fit.unknown.first == [2]
    assert fit.truncated.first == [3, 4]
    assert (fit.unknown_share, fit.truncated_share) == (3 / 17, 0.5)
    assert [warning.split()[0] for warning in fit_warnings(fit)] == ["17.6%", "50.0%"]
    assert "language" in fit_warnings(fit)[0]
    assert fit.to_json()["warnings"] == fit_warnings(fit)


def test_texts_that_fit_warn_of_nothing(tokenizer: Path) -> None:
    assert fit_warnings(tokenizer_fit([("the cat",)], tokenizer=tokenizer, max_tokens=8)) == []
    assert fit_warnings(tokenizer_fit([], tokenizer=tokenizer, max_tokens=8)) == []


def test_only_a_sample_is_read(tokenizer: Path) -> None:
    endless = (("the cat",) for _ in iter(int, 1))
    assert tokenizer_fit(endless, tokenizer=tokenizer, max_tokens=8, most_rows=7).rows == 7


def test_a_tokenizer_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    refused(ErrorCode.NOT_FOUND, lambda: tokenizer_fit([], tokenizer=tmp_path / "none.json", max_tokens=8))
    (tmp_path / "bad.json").write_text("{}")
    refused(
        ErrorCode.UNSUPPORTED_CHECKPOINT,
        lambda: tokenizer_fit([], tokenizer=tmp_path / "bad.json", max_tokens=8),
    )


def test_both_kinds_of_upload_give_their_rows(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("one\ntwo\n")
    assert list(corpus_rows(corpus)) == [("one",), ("two",)]
    split = tmp_path / "train.jsonl"
    kinds: list[Example] = [
        TextExample("a", "x", "b"),
        TagExample(("a", "b"), ("O", "O")),
        AnswerExample("q", "c", ()),
    ]
    split.write_text("".join(example.to_line() for example in kinds))
    assert list(dataset_rows(split)) == [("a", "b"), ("a b",), ("q", "c")]

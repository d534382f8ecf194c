"""Tagged tokens in each format: CoNLL, lists and tables, and every fault with its place."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.conll import clean_tags
from tenants.datasets.formats.examples import TaggingExample
from tests.unit.tenants.files import examples, jsonl, refused

CONLL = "-DOCSTART- -X- O O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\nPeter NNP B-PER\nBlackburn NNP I-PER"


def test_conll_takes_the_first_and_the_last_column(tmp_path: Path) -> None:
    assert examples(tmp_path, "train.txt", CONLL, "tagging") == [
        TaggingExample(("EU", "rejects"), ("B-ORG", "O")),
        TaggingExample(("Peter", "Blackburn"), ("B-PER", "I-PER")),
    ]


def test_conll_columns_can_be_chosen_by_position(tmp_path: Path) -> None:
    content = "1\tEU\tB-ORG\t_\n2\trejects\tO\t_\n"
    assert examples(tmp_path, "a.conll", content, "tagging", tokens="2", tags="3") == [
        TaggingExample(("EU", "rejects"), ("B-ORG", "O"))
    ]


@pytest.mark.parametrize("place", ["0", "-1", "word", "1000"])
def test_conll_columns_have_positions_only(tmp_path: Path, place: str) -> None:
    refused(ErrorCode.INVALID_FIELD, lambda: examples(tmp_path, "a.conll", "EU O", "tagging", tokens=place))


def test_a_conll_line_without_a_tag_is_located(tmp_path: Path) -> None:
    error = refused(
        ErrorCode.MISSING_COLUMN, lambda: examples(tmp_path, "a.conll", "EU O\nrejects\n", "tagging")
    )
    assert error.details is not None
    assert error.details["line"] == 2


@pytest.mark.parametrize(
    ("tags", "line"),
    [
        ("O I-ORG", 4),
        ("B-PER I-ORG", 4),
        ("B-PER O I-PER", 5),
        ("B-PER E-PER", 4),
        ("S-PER", 3),
        ("O B-", 4),
        ("PER", 3),
    ],
)
def test_tags_that_are_not_iob2_are_located_by_line(tmp_path: Path, tags: str, line: int) -> None:
    content = "EU O\n\n" + "".join(f"word {tag}\n" for tag in tags.split())
    error = refused(ErrorCode.INVALID_TAGS, lambda: examples(tmp_path, "a.conll", content, "tagging"))
    assert error.details is not None
    assert (error.details["row"], error.details["line"]) == (2, line)


def test_as_many_tags_as_tokens_are_needed(tmp_path: Path) -> None:
    content = jsonl([{"tokens": ["a", "b"], "tags": ["O"]}])
    error = refused(ErrorCode.MALFORMED_ROW, lambda: examples(tmp_path, "a.jsonl", content, "tagging"))
    assert "2 tokens but 1 tags" in error.message


@pytest.mark.parametrize(
    ("tokens", "code"),
    [
        ([], ErrorCode.EMPTY_TEXT),
        (["a", ""], ErrorCode.EMPTY_TEXT),
        (["a", 5], ErrorCode.MIXED_TYPES),
        (7, ErrorCode.MIXED_TYPES),
        (["a", None], ErrorCode.MIXED_TYPES),
    ],
)
def test_tokens_are_a_list_of_texts(tmp_path: Path, tokens: Any, code: ErrorCode) -> None:
    content = jsonl([{"tokens": tokens, "tags": ["O", "O"]}])
    refused(code, lambda: examples(tmp_path, "a.jsonl", content, "tagging"))


SPANS = st.lists(
    st.tuples(st.sampled_from(["ORG", "PER", "a b", ""]), st.integers(1, 3)), min_size=1, max_size=6
)


@given(SPANS)
def test_every_sentence_made_of_spans_is_iob2(spans: list[tuple[str, int]]) -> None:
    tags = [
        tag
        for kind, length in spans
        for tag in ([f"B-{kind}"] + [f"I-{kind}"] * (length - 1) if kind else ["O"] * length)
    ]
    assert clean_tags(tags) == tags

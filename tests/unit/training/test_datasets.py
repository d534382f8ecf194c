"""Reading labelled data and finding where its labels are read off."""

from pathlib import Path

import pytest

from inference.hplm.errors import HplmError
from inference.hplm.root import Root
from tests.unit.training.conftest import Branch
from tests.unit.training.world import json_lines
from workers.training.datasets import Example, encode, label_set, read_examples


@pytest.fixture
def root(branch: Branch) -> Root:
    return branch.loaded


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("classification", {"text": "no label"}),
        ("tagging", {"tokens": ["a", "b"], "tags": ["O"]}),
        ("tagging", {"tokens": "ab", "tags": ["O", "O"]}),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, task: str, row: dict[str, object]) -> None:
    good = {"text": "t", "label": "a", "tokens": ["t"], "tags": ["O"]}
    with pytest.raises(HplmError, match=r"Row 2 of rows\.jsonl") as caught:
        read_examples(json_lines(tmp_path / "rows.jsonl", [good, row]), task)
    assert caught.value.code == "malformed_row"


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HplmError) as caught:
        read_examples(json_lines(tmp_path / "rows.jsonl", []), "tagging")
    assert caught.value.code == "too_few_rows"


def test_a_single_label_is_refused() -> None:
    with pytest.raises(HplmError) as caught:
        label_set([Example(("t",), ("a",))] * 3, "classification")
    assert caught.value.code == "one_label"
    with pytest.raises(HplmError):
        label_set([Example(("t", "u"), ("O", "O"))], "tagging")


def test_tagging_always_knows_how_to_begin_an_entity_and_to_stay_outside() -> None:
    assert label_set([Example(("t",), ("I-x",))], "tagging") == ["B-x", "I-x", "O"]


def test_a_tag_is_read_off_the_first_token_of_its_word(root: Root) -> None:
    example = Example(("river", "zebra", "\u200b", "stone"), ("O", "B-x", "O", "O"))
    encoded = encode(example, "tagging", root.tokenizer)
    pieces = len(root.tokenizer.encode("zebra").ids) - 2
    assert pieces > 1
    assert encoded.positions.tolist()[:3] == [1, 2, 2 + pieces]
    assert encoded.words.tolist()[:2] == [0, 1]
    assert encoded.words.tolist()[-1] == 3


def test_words_that_are_cut_off_have_no_position(root: Root) -> None:
    example = Example(("river",) * 200, ("O",) * 200)
    encoded = encode(example, "tagging", root.tokenizer)
    assert encoded.truncated
    assert len(encoded.positions) == root.config.max_tokens - 2

"""A corpus from its file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.corpus import CorpusDraft, corpus_report, draft_corpus
from tests.unit.tenants.files import jsonl, refused, source


def draft(folder: Path, content: str | bytes, name: str = "corpus.txt") -> CorpusDraft:
    return draft_corpus(file=source(folder, name, content), workspace=folder)


def test_texts_stand_one_a_line_without_blank_ones(tmp_path: Path) -> None:
    made = draft(tmp_path, "\ufeffone  two\r\n\r\n   \nthree\u2028four\tfive\x0bsix\n")
    assert made.path.read_bytes() == b"one two\nthree four five six\n"
    assert (made.rows, made.words.total) == (2, 6)


def test_json_lines_are_taken_for_their_text(tmp_path: Path) -> None:
    made = draft(tmp_path, jsonl([{"text": "one\ntwo", "id": 1}, {"text": "three"}]), "corpus.jsonl")
    assert made.path.read_text() == "one two\nthree\n"


def test_json_lines_whose_text_is_none_are_located(tmp_path: Path) -> None:
    content = jsonl([{"text": "one"}, {"text": None}])
    error = refused(ErrorCode.MIXED_TYPES, lambda: draft(tmp_path, content, "corpus.jsonl"))
    assert error.details is not None
    assert error.details["row"] == 2


@pytest.mark.parametrize("content", ["", " \t\n\n", "\ufeff"])
def test_a_corpus_without_text_is_refused(tmp_path: Path, content: str) -> None:
    refused(ErrorCode.EMPTY_FILE, lambda: draft(tmp_path, content))


def test_the_report_counts_and_warns(tmp_path: Path) -> None:
    report = corpus_report(draft(tmp_path, "One, two.\none two\nthree four five\n"))
    assert report == {
        "format": "text",
        "rows": 3,
        "words": 7,
        "duplicates": 1,
        "duplicate_rows": [2],
        "characters": {"min": 7, "mean": 10.3, "max": 15},
        "words_per_row": {"min": 2, "mean": 2.3, "max": 3},
        "words_histogram": [0, 0, 3],
        "warnings": [
            "1 texts (33.3%) repeat an earlier one (the first: texts 2).",
            "Only 3 texts, each on a line of its own. Are line ends missing?",
        ],
    }


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_no_word_is_lost_or_made(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    texts = ["word", *texts]
    made = draft(tmp_path_factory.mktemp("corpus"), "\n".join(texts))
    canonical = made.path.read_bytes().decode()
    assert canonical.split() == "\n".join(texts).split()
    assert canonical.splitlines() == canonical.removesuffix("\n").split("\n")

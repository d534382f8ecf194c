"""Texts that are not the same, and corpora."""

import json
from pathlib import Path

import pytest

from tenants.datasets.formats.corpus import draft_corpus
from tenants.datasets.formats.lines import Source, fingerprint
from tests.field.data_files import jsonl
from tests.field.data_files import uploads as uploads
from workers.training.generative.metrics import rouge_l


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("मेल", "मील"),
        ("பல", "பால்"),
        ("กา", "กี"),
        ("מֶלֶךְ", "מַלְכּ"),
        ("C", "C++"),
        ("C#", "C++"),
        ("F", "F#"),
        ("great 😀", "great 😡"),
        ("5 < 6", "5 > 6"),
    ],
)
def test_texts_that_differ_in_marks_or_symbols_are_not_the_same(one: str, other: str) -> None:
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Hello, World!", "hello world"),
        ("caf\u00e9", "cafe\u0301"),
        ("می\u200cخواهم", "میخواهم"),
        ("मेल!", "मेल"),
    ],
)
def test_texts_that_differ_in_case_punctuation_or_unicode_form_are_the_same(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(
    ("wanted", "written"),
    [("मेल", "मील"), ("பல", "பால்"), ("กา", "มี"), ("C++", "C#"), ("C", "C++"), ("😀", "😡"), ("你好", "再见")],
)
def test_rouge_of_other_words_is_zero_in_every_script(wanted: str, written: str) -> None:
    assert rouge_l([[wanted]], [written]) == 0.0


@pytest.mark.parametrize(
    ("wanted", "written", "score"),
    [
        ("मेल है", "मेल है", 1.0),
        ("मेल", "मेल।", 1.0),
        ("😀", "😀", 1.0),
        ("caf\u00e9", "cafe\u0301", 1.0),
        ("今天天气很好", "今天天气不好", 5 / 6),
        ("ดีมาก", "ดีมาก", 1.0),
        ("मेल और मील", "मेल और मूल", 2 / 3),
    ],
)
def test_rouge_counts_the_words_of_every_script(wanted: str, written: str, score: float) -> None:
    assert rouge_l([[wanted]], [written]) == pytest.approx(score)


@pytest.mark.parametrize(
    ("name", "document"),
    [("a.jsonl", False), ("a.json", False), ("a.txt", False), ("a.jsonl", True), ("a.json", True)],
)
def test_a_corpus_of_json_is_recognised_by_its_content(name: str, document: bool, tmp_path: Path) -> None:
    rows = [{"text": f"line {number}", "id": number} for number in range(12)]
    path = tmp_path / name
    path.write_text(json.dumps(rows) if document else jsonl(rows))
    draft = draft_corpus(file=Source(path, name), workspace=tmp_path)
    assert draft.preview[:2] == ["line 0", "line 1"]


def test_a_corpus_that_begins_with_a_bracket_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text('{\n[1] a note\n{"id": 5}\n')
    assert draft_corpus(file=Source(path, "a.txt"), workspace=tmp_path).preview == [
        "{",
        "[1] a note",
        '{"id": 5}',
    ]

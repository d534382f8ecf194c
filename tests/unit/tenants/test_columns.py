"""Which columns files have, before anybody knows what they mean."""

from pathlib import Path

import pytest

from tenants.base.errors import HmiError
from tenants.datasets.formats.columns import FileColumns, read_columns
from tests.unit.tenants.files import jsonl, source

LONG = "word " * 20


def found(folder: Path, name: str, content: str, task: str, **columns: str) -> FileColumns:
    """What a look at a file with this content says."""
    return read_columns(source(folder, name, content), task, columns)


def test_a_table_tells_its_header_and_first_record_whatever_parts_them(tmp_path: Path) -> None:
    for sign in ",;\t|":
        line_end = " " if sign == "\t" else "\n"  # quotes of a tab-separated file do not reach over lines
        content = f'message{sign}label\n"Where is{sign}{line_end}my parcel?"{sign}post\nHello{sign}other\n'
        table = found(tmp_path, "a.csv", content, "classification")
        assert table.examples == {"message": f"Where is{sign.strip()} my parcel?", "label": "post"}
        assert table.default_mapping == {"label": "label"}


def test_records_tell_all_fields_of_the_first_of_them(tmp_path: Path) -> None:
    rows = [
        {"text": None, "value": 1},
        {"text": LONG, "text_pair": "b", "value": 2, "tags": []},
        {"text": "c", "value": 3, "tags": ["a"]},
    ]
    record = found(tmp_path, "a.jsonl", jsonl(rows), "regression")
    assert record.default_mapping == {"text": "text", "text_pair": "text_pair", "value": "value"}
    assert record.examples == {
        "text": f"{LONG[:24].rstrip()}…",
        "value": "1",
        "text_pair": "b",
        "tags": '["a"]',
    }


def test_columns_without_names_are_told_by_their_places(tmp_path: Path) -> None:
    content = "-DOCSTART- -X- O\n\nEU NNP B-ORG\nsays VBZ O\n"
    tagged = found(tmp_path, "a.txt", content, "tagging", tokens="2")
    assert tagged.examples == {"1": "EU", "2": "NNP", "3": "B-ORG"}
    assert tagged.default_mapping == {"tokens": "1", "tags": "3"}


def test_only_the_beginning_counts_and_what_is_wrong_there_is_said(tmp_path: Path) -> None:
    rows = jsonl([{"text": "a", "label": "b"}] * 30).encode() + b"\xff{broken\n"
    good = read_columns(source(tmp_path, "a.jsonl", rows), "classification")
    assert set(good.default_mapping) == {"text", "label"}
    archive = source(tmp_path, "a.csv", b"PK\x03\x04" + bytes(100))
    with pytest.raises(HmiError, match="zip"):
        read_columns(archive, "classification")
    with pytest.raises(HmiError, match="Unknown task"):
        read_columns(archive, "poetry")


def test_of_several_files_the_first_tells_what_a_column_holds() -> None:
    both = FileColumns({"a": "of train"}, {"text": "a"})
    both.add(FileColumns({"a": "of dev", "b": ""}, {"text": "b", "label": "b"}))
    assert both == FileColumns({"a": "of train", "b": ""}, {"text": "a", "label": "b"})


def test_columns_that_are_missing_are_guessed_by_usual_names() -> None:
    file = FileColumns({"Message": "hello", "Category": "a", "id": "1"})
    assert file.guessed_mapping("classification") == {"text": "Message", "label": "Category"}
    assert FileColumns({"sentence1": "", "sentence2": "", "label": ""}, {"label": "label"}).guessed_mapping(
        "classification"
    ) == {"text": "sentence1", "text_pair": "sentence2"}
    assert FileColumns({"a": "", "b": ""}).guessed_mapping("classification") == {}

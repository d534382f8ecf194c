"""Datasets of every task: what is counted, warned of, and refused."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.report import dataset_preview_rows, dataset_report
from tests.unit.tenants.files import draft, refused, texts


def questions(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "question": f"what is number {number}",
            "context": f"the number is {number}",
            "answers": [{"text": str(number), "start": 14}] if number % 4 else [],
        }
        for number in range(start, start + count)
    ]


def test_values_are_counted_into_a_histogram(tmp_path: Path) -> None:
    rows = [{"text": f"text {number}", "value": number % 25} for number in range(100)]
    made = draft(tmp_path, "regression", train=rows, dev=texts_with_values(5), test=texts_with_values(5, 5))
    figures = dataset_report(made)["splits"]["train"]["values"]
    assert (figures["min"], figures["mean"], figures["max"]) == (0.0, 12.0, 24.0)
    assert figures["deviation"] == pytest.approx(7.2111, abs=1e-4)
    assert sum(figures["histogram"]) == 100
    assert made.labels == ["value"]


def texts_with_values(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"text": f"another {number}", "value": number / 2} for number in range(start, start + count)]


def test_labels_of_several_are_counted_each(tmp_path: Path) -> None:
    rows = [{"text": f"text {number}", "labels": ["a", "b"][: number % 3]} for number in range(60)]
    report = dataset_report(draft(tmp_path, "multilabel", train=rows))
    train = report["splits"]["train"]
    assert report["labels"] == ["a", "b"]
    assert (train["labels_per_row"]["min"], train["labels_per_row"]["max"]) == (0, 2)
    assert 1.5 < train["imbalance"] < 2.5


def test_questions_count_those_without_an_answer(tmp_path: Path) -> None:
    made = draft(tmp_path, "question_answering", train=questions(80))
    report = dataset_report(made)
    assert sum(split["unanswerable"] for split in report["splits"].values()) == 20
    assert report["splits"]["train"]["words_per_answer"] == {"min": 1, "mean": 1.0, "max": 1}
    assert (report["labels"], report["pairs"]) == (["start", "end"], True)
    assert dataset_preview_rows(made)["train"][1] == {
        "question": "what is number 1",
        "context": "the number is 1",
        "answers": [{"text": "1", "start": 14}],
        "cut": False,
    }


def test_all_misplaced_answers_are_named_by_row(tmp_path: Path) -> None:
    rows = questions(20)
    for place in (1, 5, 6):
        rows[place]["answers"][0]["start"] = 3
    error = refused(ErrorCode.MALFORMED_ROW, lambda: draft(tmp_path, "question_answering", train=rows))
    assert error.details is not None
    assert (error.details["row"], error.details["rows"], error.details["count"]) == (2, [2, 6, 7], 3)
    assert "In all, 3 rows are invalid; the others are rows 6, 7." in error.message


def test_invalid_rows_are_left_out_and_counted_if_that_is_asked(tmp_path: Path) -> None:
    rows = questions(20)
    for place in (1, 5, 6):
        rows[place]["answers"][0]["start"] = 3
    made = draft(tmp_path, "question_answering", train=rows, skip_invalid_rows=True)
    report = dataset_report(made)
    assert (report["rows"], report["skipped_rows"]) == (17, {"train": 3})
    assert "3 rows of train were invalid and left out." in report["warnings"]


def test_files_without_a_valid_row_are_refused_all_the_same(tmp_path: Path) -> None:
    rows = [row for row in questions(20) if row["answers"]]
    for row in rows:
        row["answers"][0]["start"] = 3
    draft_all = partial(draft, tmp_path, "question_answering", train=rows, skip_invalid_rows=True)
    assert "no row is valid" in refused(ErrorCode.TOO_FEW_ROWS, draft_all).message


@pytest.mark.parametrize(
    ("task", "row"),
    [
        ("tagging", {"tags": ["O"]}),
        ("regression", {"value": 1}),
        ("multilabel", {"labels": []}),
        ("question_answering", {"question": "q", "answers": []}),
    ],
)
def test_nothing_to_learn_is_refused(tmp_path: Path, task: str, row: dict[str, Any]) -> None:
    key = {"question_answering": "context", "tagging": "tokens"}.get(task, "text")
    texts_of = [f"text{number}" for number in range(20)]
    rows = [{key: [text] if task == "tagging" else text, **row} for text in texts_of]
    assert refused(ErrorCode.ONE_LABEL, lambda: draft(tmp_path, task, train=rows)).param == "train"


def paired(count: int, second: str) -> list[dict[str, Any]]:
    return [{**row, "text_pair": f"{second} {place}"} for place, row in enumerate(texts(count))]


def test_pairs_leak_only_when_both_texts_are_the_same(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    apart = draft(
        tmp_path / "one", "classification", train=paired(40, "a"), dev=paired(4, "b"), test=paired(4, "c")
    )
    assert (apart.leaks, apart.pairs) == ([], True)
    refused(
        ErrorCode.LEAKING_SPLITS,
        lambda: draft(
            tmp_path / "two",
            "classification",
            train=paired(40, "a"),
            dev=paired(4, "b"),
            test=paired(4, "A!"),
        ),
    )


def test_signs_that_mark_what_a_row_asks_about_make_no_duplicate(tmp_path: Path) -> None:
    marked = [{"text": f"<< a >> and b {number}", "label": "x"} for number in range(20)]
    marked += [{"text": f"a and << b >> {number}", "label": "y"} for number in range(20)]
    report = dataset_report(draft(tmp_path, "classification", train=marked))
    assert all(split["duplicates"] == split["conflicting_labels"] == 0 for split in report["splits"].values())

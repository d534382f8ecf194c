"""A dataset from its files: splits, leaks, labels, reports."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.base.errors import ErrorCode
from tenants.datasets.formats import dataset as dataset_module
from tenants.datasets.formats import lines
from tenants.datasets.formats.dataset import DatasetDraft
from tenants.datasets.formats.examples import ClassificationExample, read_examples
from tenants.datasets.formats.lines import ASCII_WORD, WORD, exact_fingerprint, fingerprint, normalise
from tenants.datasets.formats.normalization import clean_label, column_key
from tenants.datasets.formats.report import dataset_preview_rows, dataset_report
from tenants.datasets.formats.splits import auto_split
from tenants.datasets.formats.statistics import SplitStatistics
from tests.other_threads import turns_meanwhile
from tests.unit.tenants.files import draft, refused, texts

SMALL_TEST = (
    "The test split has only {rows} rows. Each counts for {share}% of the measured quality, so small"
    " differences mean nothing. Give at least 100 rows."
)


def rows_of(made: DatasetDraft) -> dict[str, list[str]]:
    return {
        split: [example.texts[0] for example in read_examples(path)] for split, path in made.paths.items()
    }


def test_given_splits_are_kept_as_they_are(tmp_path: Path) -> None:
    made = draft(tmp_path, train=texts(20), dev=texts(4, start=20), test=texts(5, start=24))
    assert {split: stats.rows for split, stats in made.statistics.items()} == {
        "train": 20,
        "dev": 4,
        "test": 5,
    }
    assert rows_of(made)["dev"] == [row["text"] for row in texts(4, start=20)]
    assert made.automatic == []
    assert made.labels == ["bad", "good"]


def test_missing_splits_are_taken_from_train_a_tenth_each(tmp_path: Path) -> None:
    made = draft(tmp_path, train=texts(200))
    rows = rows_of(made)
    assert {split: len(found) for split, found in rows.items()} == {"train": 160, "dev": 20, "test": 20}
    assert sorted(text for found in rows.values() for text in found) == sorted(
        row["text"] for row in texts(200)
    )
    assert made.automatic == ["dev", "test"]
    assert all(set(stats.labels) == {"good", "bad"} for stats in made.statistics.values())


def test_only_dev_is_taken_when_test_was_given(tmp_path: Path) -> None:
    made = draft(tmp_path, train=texts(100), test=texts(10, start=100))
    assert {split: stats.rows for split, stats in made.statistics.items()} == {
        "train": 90,
        "test": 10,
        "dev": 10,
    }


def test_the_automatic_split_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    rows = texts(50)
    one = rows_of(draft(tmp_path / "one", train=rows))
    two = rows_of(draft(tmp_path / "two", train=rows[::-1]))
    assert {split: set(found) for split, found in one.items()} == {
        split: set(found) for split, found in two.items()
    }


def statistics_of(rows: list[tuple[str, str]]) -> SplitStatistics:
    stats = SplitStatistics()
    for text, label in rows:
        stats.add(ClassificationExample(text, label))
    return stats


@given(st.lists(st.tuples(st.integers(0, 80), st.sampled_from("abc")), min_size=80, max_size=300))
def test_duplicates_stay_together_and_train_keeps_every_label(rows: list[tuple[int, str]]) -> None:
    stats = statistics_of([(f"text {number}", label) for number, label in rows])
    if len(stats.texts) < 40:
        return
    chosen = auto_split(stats, ["dev", "test"])
    assert set(chosen) < set(stats.texts)
    kept = {text.label for mark, text in stats.texts.items() if mark not in chosen}
    assert kept == {text.label for text in stats.texts.values()}
    for split in ("dev", "test"):
        share = sum(found == split for found in chosen.values()) / len(stats.texts)
        assert 0.07 <= share <= 0.13


@given(st.text(st.characters(max_codepoint=126)))
def test_words_of_ascii_are_those_of_unicode(text: str) -> None:
    assert ASCII_WORD.findall(text) == WORD.findall(text)


def test_near_copies_count_as_the_same_text() -> None:
    assert normalise("  The Café, again! ") == normalise("the cafe\u0301   AGAIN")
    assert fingerprint("Hello, world.") == fingerprint("hello world")
    assert fingerprint("!?") != fingerprint("!!")
    assert (
        exact_fingerprint("Hello,  World")
        == exact_fingerprint("hello, world")
        != exact_fingerprint("hello world")
    )
    assert fingerprint("a", "b") != fingerprint("a b") != fingerprint("b", "a")


def test_leaking_splits_are_refused_with_their_counts(tmp_path: Path) -> None:
    train = texts(100)
    leaked = [{"text": row["text"].upper() + "!", "label": row["label"]} for row in train[:2]]
    error = refused(
        ErrorCode.LEAKING_SPLITS,
        lambda: draft(tmp_path, train=train, dev=texts(10, start=100), test=texts(48, start=110) + leaked),
    )
    assert error.details == {
        "leaks": [
            {
                "from": "train",
                "to": "test",
                "rows": 2,
                "share": 0.04,
                "same_answer": 2,
                "first_rows": [49, 50],
            }
        ],
        "limit": 0.01,
    }
    assert "The first are rows 49, 50 of test." in error.message


def test_a_leak_below_the_limit_is_reported_as_a_warning(tmp_path: Path) -> None:
    train = texts(100)
    made = draft(tmp_path, train=train, dev=texts(10, start=100), test=texts(199, start=110) + train[:1])
    report = dataset_report(made)
    assert [(leak["rows"], leak["share"], leak["first_rows"]) for leak in report["leaks"]] == [
        (1, 0.005, [200])
    ]
    assert "1 row of test is also in train (0.50%) (row 200)." in report["warnings"]
    assert report["leaks_allowed"] is False


def test_one_kind_of_span_is_enough_for_tagging(tmp_path: Path) -> None:
    rows = [{"tokens": [f"a{number}", "b"], "tags": ["B-x", "O"]} for number in range(30)]
    made = draft(tmp_path, "tagging", train=rows)
    assert made.labels == ["x"]
    assert dataset_report(made)["splits"]["train"]["labels"] == {"x": 24}


@pytest.mark.parametrize(
    ("rows", "code", "details"),
    [
        (texts(20, labels=("good",)), ErrorCode.ONE_LABEL, {"label": "good", "rows": 20}),
        (texts(9), ErrorCode.TOO_FEW_ROWS, {"rows": 9, "needed": 10}),
        (texts(5) * 10, ErrorCode.TOO_FEW_ROWS, None),
        (texts(12, labels=tuple("abcdefghijkl")), ErrorCode.TOO_FEW_ROWS, None),
        *((empty, ErrorCode.EMPTY_FILE, None) for empty in ("", "\n \n", "\ufeff", "\ufeff\n")),
    ],
)
def test_too_few_rows_texts_or_labels_are_refused(
    tmp_path: Path, rows: Any, code: ErrorCode, details: dict[str, Any] | None
) -> None:
    assert refused(code, lambda: draft(tmp_path, train=rows)).details == details or details is None


def test_unknown_and_missing_splits_are_refused(tmp_path: Path) -> None:
    assert refused(ErrorCode.MISSING_FIELD, lambda: draft(tmp_path, test=texts(20))).param == "train"
    (tmp_path / "two").mkdir()
    refused(ErrorCode.INVALID_FIELD, lambda: draft(tmp_path / "two", train=texts(20), validation=texts(3)))


def test_a_column_that_is_no_label_is_refused(tmp_path: Path) -> None:
    rows = [{"text": f"a {number}", "label": number} for number in range(1100)]
    error = refused(ErrorCode.INVALID_FIELD, lambda: draft(tmp_path, train=rows))
    assert error.details is not None
    assert (error.details["row"], error.details["limit"]) == (1001, 1000)


def test_too_many_rows_are_refused_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_module, "MAX_ROWS", 30)
    error = refused(ErrorCode.FILE_TOO_LARGE, lambda: draft(tmp_path, train=texts(50)))
    assert error.details is not None
    assert error.details["row"] == 31


def test_the_type_of_labels_is_the_same_in_all_splits(tmp_path: Path) -> None:
    dev = [{"text": "a new one", "label": 1}]
    error = refused(ErrorCode.MIXED_TYPES, lambda: draft(tmp_path, train=texts(20), dev=dev))
    assert error.details is not None
    assert error.details["file"] == "dev.jsonl"


def test_the_report_counts_and_warns(tmp_path: Path) -> None:
    train = [*texts(30), {"text": "TEXT number 0", "label": "bad"}, {"text": "a rare one", "label": "rare"}]
    dev = [{"text": "one two three", "label": "unseen"}]
    report = dataset_report(draft(tmp_path, train=train, dev=dev, test=texts(3, start=50)))
    assert report["rows"] == 36
    assert report["words"] == 31 * 3 + 3 + 3 + 9
    assert report["splits"]["train"] == {
        "rows": 32,
        "words": 96,
        "labels": {"bad": 16, "good": 15, "rare": 1},
        "imbalance": 16.0,
        "duplicates": 1,
        "duplicate_rows": [31],
        "conflicting_labels": 1,
        "conflicting_rows": [31],
        "characters": {"min": 10, "mean": 13.5, "max": 14},
        "words_per_row": {"min": 3, "mean": 3.0, "max": 3},
        "words_histogram": [0, 0, 32],
    }
    assert report["notes"] == []
    assert report["warnings"] == [
        SMALL_TEST.format(rows=3, share=33),
        "1 row of train (3.1%) repeats the text of an earlier row (row 31).",
        "1 row of train contradicts an earlier row with the same text (row 31).",
        "dev has the label 'unseen', which train lacks, in 1 row (row 1): every prediction there is wrong.",
        "Labels with fewer than 5 examples in train: rare.",
    ]


def test_splits_that_are_held_out_are_a_note_and_a_large_test_split_needs_no_warning(tmp_path: Path) -> None:
    report = dataset_report(draft(tmp_path, train=texts(1000)))
    assert report["notes"] == ["We hold out 10% of the rows for validation and 10% for testing."]
    assert report["warnings"] == []
    (folder := tmp_path / "dev").mkdir()
    given = dataset_report(draft(folder, train=texts(1000), dev=texts(20, start=2000)))
    assert given["notes"] == ["We hold out 10% of the rows for testing."]


def test_the_preview_cuts_long_texts(tmp_path: Path) -> None:
    rows = texts(20)
    rows[0]["text"] = "x" * 1000
    shown = dataset_preview_rows(draft(tmp_path, train=rows))["train"]
    assert len(shown) == 5
    assert shown[0] == {"text": "x" * 300, "label": "good", "cut": True}
    assert shown[1] == {"text": "text number 1", "label": "bad", "cut": False}


@pytest.mark.parametrize("mark", ["\u0323", "\uff9e"])
def test_a_long_row_of_combining_marks_is_normalised_in_linear_time(mark: str) -> None:
    text = "a" + f"\u0301{mark}" * 500_000  # it took an hour
    assert fingerprint(text) == fingerprint("A" + text[1:])
    assert fingerprint(text) != fingerprint(text + mark)
    assert column_key(text) != column_key(text + mark)
    with pytest.raises(ValueError, match="more than 200"):
        clean_label(text)


def test_other_threads_run_while_a_long_text_is_normalised() -> None:
    for text in ("a " * 1_000_000, "\ufdfa" * 500_000):
        assert turns_meanwhile(partial(normalise, text)) >= 10


@given(st.lists(st.sampled_from(["Äb", "A\u0308b", "x", ",", " ", "\n", "ﬁ", "c++"])).map("".join))
def test_a_text_is_normalised_alike_in_pieces(text: str) -> None:
    whole = normalise(f"{text} end")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_PIECE_CHARACTERS", max(map(len, f" {text} end".split(" "))) + 1)
        assert normalise(f"{text} end") == whole

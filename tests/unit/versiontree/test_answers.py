"""Answers that evaluations kept: choosing among them, and holding two versions against each other."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from versiontree.artifact_store import ArtifactDamaged
from versiontree.tree.evaluation_answers import (
    ChangeKind,
    EvaluationAnswers,
    RowAnswer,
    answer_labels,
    answers_compare,
    answers_filter,
    answers_read,
    mcnemar,
)
from workers.training.evaluation_answers import write_answers
from workers.training.tasks.base import EvaluatedRow


def said(row: int, gold: str, answer: str, score: float = 0.5) -> RowAnswer:
    return RowAnswer(row, 0, gold, answer, gold == answer, score)


def of(*answered: RowAnswer, task: str = "classification") -> EvaluationAnswers:
    return EvaluationAnswers(task, len(answered), answered)


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_s_test_is_the_binomial_one_of_the_rows_that_changed_sides(fixed: int, broken: int) -> None:
    expected = binomtest(fixed, fixed + broken).pvalue if fixed + broken else 1.0
    assert mcnemar(fixed, broken) == pytest.approx(expected)


def test_the_surest_mistakes_come_first_and_cells_hold_what_the_matrix_counts() -> None:
    found = of(said(1, "a", "a"), said(2, "a", "b", 0.6), said(3, "a", "b", 0.9), said(4, "b", "a", 0.7))
    assert [one.row for one in answers_filter(found, wrong=True)] == [3, 4, 2]
    assert [one.row for one in answers_filter(found, gold="a", predicted="b")] == [2, 3]
    assert [one.row for one in answers_filter(found, gold="a")] == [1, 2, 3]
    assert answer_labels(found) == ["a", "b"]


def test_spans_and_sets_are_found_by_the_labels_in_them() -> None:
    spans = RowAnswer(1, 0, [["DRUG", 0, 1]], [["DISEASE", 2, 4]], False, 0.5)
    sets = RowAnswer(2, 0, ["x", "y"], [], False, 0.5)
    assert answers_filter(of(spans, task="tagging"), gold="DRUG", predicted="DISEASE") == [spans]
    assert answers_filter(of(sets, task="multilabel"), gold="y") == [sets]
    assert answers_filter(of(sets, task="multilabel"), predicted="y") == []


def test_numbers_farthest_off_come_first_and_nearer_ones_are_better() -> None:
    before = of(
        RowAnswer(1, 0, 5.0, 4.0, None, None), RowAnswer(2, 0, 5.0, 5.5, None, None), task="regression"
    )
    after = of(
        RowAnswer(1, 0, 5.0, 4.5, None, None), RowAnswer(2, 0, 5.0, 9.0, None, None), task="regression"
    )
    assert [one.row for one in answers_filter(after, wrong=True)] == [2, 1]
    assert {one.after.row: one.change for one in answers_compare(before, after)} == {
        1: ChangeKind.FIXED,
        2: ChangeKind.BROKEN,
    }


def written(row: int, answer: str, rouge_l: float) -> RowAnswer:
    return RowAnswer(row, 0, "It is five.", answer, None, rouge_l)


@pytest.mark.parametrize("task", ["generation", "chat"])
def test_written_answers_are_ordered_and_compared_by_rouge_l(task: str) -> None:
    before = of(
        written(1, "It.", 0.4), written(2, "Five.", 0.4), written(3, "Six.", 0.0), written(4, "No", 0.0)
    )
    after = of(
        *(written(1, "It is five.", 1.0), written(2, "So.", 0.0)),
        *(written(3, "Seven.", 0.0), written(4, "No", 0.0)),
        task=task,
    )
    assert [one.row for one in answers_filter(after, wrong=True)] == [2, 3, 4, 1]
    assert [one.row for one in answers_filter(after)] == [1, 2, 3, 4]
    assert {one.after.row: one.change for one in answers_compare(before, after)} == {
        1: ChangeKind.FIXED,
        2: ChangeKind.BROKEN,
        3: ChangeKind.CHANGED,
    }
    assert answer_labels(after) == []


labels = st.sampled_from("abc")


@given(st.lists(st.tuples(labels, labels, labels), max_size=40), st.integers(0, 40))
def test_each_row_that_both_were_asked_is_fixed_broken_changed_or_the_same(
    rows: list[tuple[str, str, str]], unasked: int
) -> None:
    before = of(*(said(n, gold, one) for n, (gold, one, _) in enumerate(rows) if n != unasked))
    after = of(*(said(n, gold, two) for n, (gold, _, two) in enumerate(rows)))
    found = answers_compare(before, after)
    assert {one.after.row for one in found} == {
        n for n, (_, one, two) in enumerate(rows) if one != two and n != unasked
    }
    gained = sum(one.change == ChangeKind.FIXED for one in found) - sum(
        one.change == ChangeKind.BROKEN for one in found
    )
    known = [row for n, row in enumerate(rows) if n != unasked]
    assert gained == sum(gold == two for gold, _, two in known) - sum(gold == one for gold, one, _ in known)


def test_sampled_answers_are_of_the_same_rows_for_every_version(tmp_path: Path) -> None:
    texts = [f"Zeile {number} \u05d0\u05d1" for number in range(50)]
    file = tmp_path / "test.jsonl"
    file.write_text("\n\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in texts) + "\n")
    judged = [EvaluatedRow("a", "b", False, 0.5)] * len(texts)
    for version in ("one", "two"):
        write_answers(tmp_path / version, task="classification", file=file, evaluated=judged, max_rows=20)
    one, two = answers_read(tmp_path / "one"), answers_read(tmp_path / "two")
    assert one.sampled
    assert len(one.answered) == 20
    assert [row.row for row in one.answered] == [row.row for row in two.answered]
    content = file.read_bytes()
    for row in one.answered:
        line = content[row.at :].split(b"\n", 1)[0]
        assert json.loads(line)["text"] == texts[row.row - 1]


def test_rows_that_were_not_answered_are_counted_and_not_stored(tmp_path: Path) -> None:
    file = tmp_path / "test.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"{number}"}) + "\n" for number in range(6)))
    judged = [None if number % 2 else EvaluatedRow("a", "b", None, 0.5) for number in range(6)]
    write_answers(tmp_path / "one", task="generation", file=file, evaluated=judged)
    found = answers_read(tmp_path / "one")
    assert (found.rows, [one.row for one in found.answered], found.sampled) == (6, [1, 3, 5], True)
    assert [json.loads(file.read_bytes()[one.at :].split(b"\n")[0])["prompt"] for one in found.answered] == [
        *("0", "2", "4")
    ]


def test_damaged_answers_are_refused(tmp_path: Path) -> None:
    for number, content in enumerate(("", "[]", '{"format": 9}', '{"format": 1, "row": [1], "at": []}')):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "answers.json").write_text(content)
        with pytest.raises(ArtifactDamaged):
            answers_read(folder)
    with pytest.raises(ArtifactDamaged):
        answers_read(tmp_path / "absent")

"""Quick versions: heads on the frozen root, with what a trained version has beside its model."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from inference.cascade.answer_plan import AnswerPlan
from inference.cascade.dispatcher import AnswerPolicy, Level
from inference.errors import HplmError
from inference.hplm.hplm import Hplm
from inference.text.codec import TextCodec
from inference.text.outputs import OutputNames
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.test_fine_tune import score, tune
from tests.unit.workers.training.test_kinds import (
    multilabel_row,
    pair_row,
    question_row,
    regression_row,
)
from tests.unit.workers.training.world import (
    CancelAt,
    NullReporter,
    Recorder,
    classification_rows,
    json_lines,
    tagging_rows,
)
from versiontree.tree.evaluation_answers import answers_read
from workers.training import quick
from workers.training.datasets import DatasetFiles
from workers.training.evaluate import EvaluateSettings, evaluate
from workers.training.progress import Cancelled, Reporter
from workers.training.quick import QuickSettings, quick_fit
from workers.training.version_comparison import VersionFiles, compare_versions

Row = dict[str, Any]


def each(row: Callable[[random.Random], Row]) -> Callable[[int, int], list[Row]]:
    return lambda count, seed: [row(draw) for draw in [random.Random(seed)] for _ in range(count)]


KINDS: dict[str, tuple[str, Callable[[int, int], list[Row]], float]] = {
    "classification": ("classification", classification_rows, 0.3),
    "pairs": ("classification", each(pair_row), 0.1),
    "multilabel": ("multilabel", each(multilabel_row), 0.3),
    "regression": ("regression", each(regression_row), 0.7),
    "tagging": ("tagging", tagging_rows, 0.5),
}


def files_of(folder: Path, rows: Callable[[int, int], list[Row]], train: int = 240) -> DatasetFiles:
    sizes = {"train": train, "dev": 60, "test": 60}
    return DatasetFiles(
        **{
            name: json_lines(folder / f"{name}.jsonl", rows(size, seed))
            for seed, (name, size) in enumerate(sizes.items())
        }
    )


def fit(
    branch: Branch, files: DatasetFiles, task: str, folder: Path, reporter: Reporter | None = None
) -> dict[str, Any]:
    return quick_fit(
        root=branch.root,
        plots=[branch.plot],
        dataset=files,
        task=task,
        out=folder / "out",
        answers=folder / "answers",
        settings=QuickSettings(precision="float32"),
        reporter=reporter or NullReporter(),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_quick_version_is_far_above_the_trivial_answer_and_evaluates_as_a_trained_one(
    branch: Branch, tmp_path: Path, kind: str
) -> None:
    task, rows, gain = KINDS[kind]
    files = files_of(tmp_path, rows)
    report = fit(branch, files, task, tmp_path)
    evaluated = report["evaluate"]
    assert evaluated["value"] > evaluated["majority_baseline"] + gain
    found = evaluate(
        root=branch.root,
        plots=[branch.plot],
        hplm=tmp_path / "out",
        dataset_file=files.test,
        train_file=files.train,
        task=task,
        reporter=NullReporter(),
        settings=EvaluateSettings(precision="float32", policy=AnswerPolicy.FULL),
    )
    assert found == evaluated
    assert evaluated["levels"] == {"table": evaluated["value"]}
    assert report["fine_tune"]["dev"]["rows"] == 60
    stored = Hplm.load(tmp_path / "out")
    assert (stored.task, stored.pairs, stored.pet.bytes) == (task, kind == "pairs", 0)
    assert len(answers_read(tmp_path / "answers").answered) == 60


def test_a_quick_and_a_trained_version_are_compared_on_states_that_are_read_once(
    branch: Branch, tmp_path: Path
) -> None:
    files = files_of(tmp_path, classification_rows)
    fit(branch, files, "classification", tmp_path)
    tune(branch, files, tmp_path / "trained")

    def version(folder: Path) -> VersionFiles:
        return VersionFiles(
            root=branch.root,
            plots=[branch.plot],
            hplm=folder,
            lower=None,
            cascade=None,
            policy=AnswerPolicy.TABLE,
        )

    quick, trained, reporter = version(tmp_path / "out"), version(tmp_path / "trained"), Recorder()
    found = compare_versions(
        old=quick,
        new=trained,
        files={"test": files.test},
        task="classification",
        device="cpu",
        precision="float32",
        reporter=reporter,
        scratch=tmp_path,
    )
    assert [name for name, *_ in reporter.stages] == ["look up", "compute in full"]
    measured = (score(branch, one.hplm, files.test, "classification")["value"] for one in (quick, trained))
    assert (found["test"].old, found["test"].new) == pytest.approx(tuple(measured))


def test_answers_to_questions_have_no_quick_version(branch: Branch, tmp_path: Path) -> None:
    files = files_of(tmp_path, each(question_row), train=10)
    with pytest.raises(HplmError, match="no quick version") as caught:
        fit(branch, files, "question_answering", tmp_path)
    assert caught.value.code == "invalid_field"


def test_a_row_with_a_wrong_label_is_suspect(branch: Branch, tmp_path: Path) -> None:
    rows = classification_rows(240, 0)
    wrong = next(row for row, one in enumerate(rows) if one["label"] == "b")
    rows[wrong] |= {"label": "c"}
    files = replace(files_of(tmp_path, classification_rows), train=json_lines(tmp_path / "wrong.jsonl", rows))
    suspects = fit(branch, files, "classification", tmp_path)["quick"]["suspects"]
    assert [one["row"] for one in suspects] == [wrong]
    assert (suspects[0]["label"], suspects[0]["suggested"]) == ("c", "b")
    assert 0.9 <= suspects[0]["confidence"] <= 1


def test_a_word_with_a_wrong_tag_makes_its_row_suspect(branch: Branch, tmp_path: Path) -> None:
    rows = tagging_rows(240, 0)
    wrong = rows[7]["tags"].index("B-person")
    rows[7]["tags"] = ["O"] * len(rows[7]["tags"])
    files = replace(files_of(tmp_path, tagging_rows), train=json_lines(tmp_path / "wrong.jsonl", rows))
    suspects = fit(branch, files, "tagging", tmp_path)["quick"]["suspects"]
    (found,) = [one for one in suspects if one["row"] == 7]
    assert (found["label"], found["suggested"]) == ("O", "B-person")
    assert found["token"] == wrong


def test_a_missing_label_of_several_makes_its_row_suspect(branch: Branch, tmp_path: Path) -> None:
    rows = each(multilabel_row)(240, 0)
    wrong = next(row for row, one in enumerate(rows) if len(one["labels"]) > 1)
    complete = sorted(rows[wrong]["labels"])
    rows[wrong] |= {"labels": complete[1:]}
    files = replace(
        files_of(tmp_path, each(multilabel_row)), train=json_lines(tmp_path / "wrong.jsonl", rows)
    )
    suspects = fit(branch, files, "multilabel", tmp_path)["quick"]["suspects"]
    assert (wrong, ", ".join(complete[1:]), ", ".join(complete)) in [
        (one["row"], one["label"], one["suggested"]) for one in suspects
    ]


@pytest.mark.parametrize("labels", ["ab", "abc", "a" * 30 + "b", "aab"])
def test_splits_with_a_row_of_a_label_or_fewer_rows_than_folds_are_fitted(
    branch: Branch, tmp_path: Path, labels: str
) -> None:
    words = {"a": "happy", "b": "poor", "c": "blood"}
    rows = [{"text": f"{words[label]} {words[label]} river", "label": label} for label in labels]
    files = replace(files_of(tmp_path, classification_rows), train=json_lines(tmp_path / "few.jsonl", rows))
    report = fit(branch, files, "classification", tmp_path)
    assert report["fine_tune"]["labels"] == sorted(set(labels))
    assert 0 <= report["evaluate"]["value"] <= 1


@pytest.mark.parametrize(
    ("task", "row"),
    [("classification", {"text": "river", "label": "a"}), ("regression", {"text": "river", "value": 2})],
)
def test_equal_targets_are_refused_before_anything_is_written(
    branch: Branch, tmp_path: Path, task: str, row: Row
) -> None:
    files = replace(files_of(tmp_path, KINDS[task][1]), train=json_lines(tmp_path / "equal.jsonl", [row] * 8))
    with pytest.raises(HplmError) as caught:
        fit(branch, files, task, tmp_path)
    assert caught.value.code == "one_label"
    assert not (tmp_path / "out").exists()


def test_large_splits_are_sampled_and_keep_every_label(
    branch: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick, "MAX_ROWS", {"train": 50, "dev": 20, "test": 10})
    rows = [*classification_rows(239, 0), {"text": "river river", "label": "rare"}]
    files = replace(files_of(tmp_path, classification_rows), train=json_lines(tmp_path / "rare.jsonl", rows))
    report = fit(branch, files, "classification", tmp_path)
    assert report["fine_tune"]["labels"] == ["a", "b", "c", "rare"]
    assert (report["fine_tune"]["train_rows"], report["fine_tune"]["fitted_rows"]) == (240, 51)
    assert (report["fine_tune"]["dev"]["rows"], report["evaluate"]["rows"]) == (20, 10)
    answers = answers_read(tmp_path / "answers")
    assert (answers.rows, len(answers.answered)) == (60, 10)


def test_a_cancelled_fit_writes_nothing(branch: Branch, tmp_path: Path) -> None:
    files = files_of(tmp_path, classification_rows)
    reporter = CancelAt(20, "fit")
    with pytest.raises(Cancelled):
        fit(branch, files, "classification", tmp_path, reporter)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("policy", AnswerPolicy)
def test_a_quick_version_answers_from_the_tables_whatever_the_quality(
    branch: Branch, tmp_path: Path, policy: AnswerPolicy
) -> None:
    fit(branch, files_of(tmp_path, classification_rows), "classification", tmp_path)
    codec = TextCodec(branch.loaded.tokenizer, OutputNames.load(tmp_path / "out"))
    assert codec.plan(policy, target=0.9) == AnswerPlan(Level.TABLE)


def test_confidences_of_a_quick_version_are_as_high_as_its_answers_are_often_right(
    branch: Branch, tmp_path: Path
) -> None:
    """A third of the labels are drawn at random, of which two thirds are wrong."""
    draw = random.Random(0)

    def noisy(count: int, seed: int) -> list[Row]:
        rows = classification_rows(count, seed)
        return [one | {"label": draw.choice("abc")} if n % 3 == 0 else one for n, one in enumerate(rows)]

    value = fit(branch, files_of(tmp_path, noisy), "classification", tmp_path)["evaluate"]["value"]
    answered = answers_read(tmp_path / "answers").answered
    sure = fmean(one.score for one in answered if one.score is not None)
    assert sure == pytest.approx(value, abs=0.12)

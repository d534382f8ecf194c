"""Fine-tuning and evaluating models of both tasks."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.cascade.dispatcher import AnswerPolicy
from inference.cascade.profile import CASCADE_FILE, CascadeProfile
from inference.errors import HplmError
from inference.hplm.hplm import Hplm
from tests.pretended_cuda import pretended_cuda
from tests.rounding import up_to_rounding
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import (
    CancelAt,
    NullReporter,
    classification_rows,
    contents,
    dataset,
    json_lines,
    tagging_rows,
)
from versiontree.job_settings import DEFAULT_EPOCHS
from versiontree.tree.evaluation_answers import answers_read
from workers.training.cascade import cross_fitting
from workers.training.cascade.selection import summary
from workers.training.datasets import DatasetFiles
from workers.training.evaluate import EvaluateSettings, evaluate
from workers.training.fine_tune import fine_tune
from workers.training.progress import Cancelled, Reporter
from workers.training.search import FineTuneSettings

SMALL = FineTuneSettings(
    precision="float32",
    lora=0,
    biases=False,
    norms=False,
    adapter=16,
    learning_rate=1e-2,
    full_context_share=0.0,
    patience=8,
    dropout=0.0,
    pooling="cls",
    epochs=8,
    min_steps=0,
)
ROWS = {"classification": classification_rows, "tagging": tagging_rows}


def tune(
    branch: Branch,
    files: DatasetFiles,
    out: Path,
    *,
    task: str = "classification",
    settings: FineTuneSettings = SMALL,
    reporter: Reporter | None = None,
    start_from: Path | None = None,
) -> dict[str, Any]:
    return fine_tune(
        root=branch.root,
        plots=[branch.plot],
        dataset=files,
        task=task,
        out=out,
        settings=settings,
        reporter=reporter or NullReporter(),
        start_from=start_from,
    )


def score(
    branch: Branch,
    hplm: Path,
    file: Path,
    task: str,
    train: Path | None = None,
    answers: Path | None = None,
    policy: AnswerPolicy = AnswerPolicy.TABLE,
    device: str = "auto",
    **more: Path,
) -> dict[str, Any]:
    return evaluate(
        root=branch.root,
        plots=[branch.plot],
        hplm=hplm,
        dataset_file=file,
        task=task,
        reporter=NullReporter(),
        train_file=train,
        settings=EvaluateSettings(device=device, precision="float32", policy=policy),
        answers=answers,
        **more,
    )


@pytest.fixture(scope="module", params=["classification", "tagging"])
def tuned(
    request: pytest.FixtureRequest, branch: Branch, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp(request.param)
    files = dataset(folder, request.param)
    before = contents(branch.root, branch.lower, branch.plot)
    report = tune(branch, files, folder / "out", task=request.param)
    return {
        "task": request.param,
        "files": files,
        "report": report,
        "out": folder / "out",
        "untouched": contents(branch.root, branch.lower, branch.plot) == before,
    }


@pytest.mark.slow
def test_both_levels_are_learnt_and_evaluated_in_float32_on_a_gpu(
    branch: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32 the kernels are the same for every generation of GPUs."""
    monkeypatch.setattr(cross_fitting, "ENOUGH_ROWS", 60)  # which would train twice more
    files = dataset(tmp_path, "classification")
    settings = replace(SMALL, device="cuda", epochs=6, full_context_share=0.5)
    with pretended_cuda():
        report = tune(branch, files, tmp_path / "out", settings=settings)
        measured = score(
            branch, tmp_path / "out", files.test, "classification", policy=AnswerPolicy.FULL, device="cuda"
        )
    assert report["dev"]["value"] > report["dev"]["majority_baseline"] + 0.25
    assert measured["value"] > measured["majority_baseline"] + 0.25


def test_a_task_that_can_be_learnt_is_learnt_far_above_the_trivial_answer(tuned: dict[str, Any]) -> None:
    dev = tuned["report"]["dev"]
    assert dev["value"] > dev["majority_baseline"] + 0.25
    assert dev["rows"] == 60
    assert tuned["untouched"], "the root, its lower layers and its table stay as they are"


def test_stored_model_has_the_metrics_of_training(
    branch: Branch, tuned: dict[str, Any], tmp_path: Path
) -> None:
    files = tuned["files"]
    found = score(branch, tuned["out"], files.dev, tuned["task"], files.train, tmp_path / "answers")
    levels = found.pop("levels")
    assert levels.keys() == {"table", "cascade", "full", "escalated"}
    assert levels["table"] == found["value"]
    assert found.pop("policy") == "table"
    assert found == tuned["report"]["dev"]
    kept = answers_read(tmp_path / "answers").answered
    assert all(one.right == (one.gold == one.answer) for one in kept)
    if tuned["task"] == "tagging":
        expected, given = (
            [{tuple(span) for span in spans} for spans in sides]
            for sides in ([one.gold for one in kept], [one.answer for one in kept])
        )
        both = sum(len(a & b) for a, b in zip(expected, given, strict=True))
        assert both / sum(map(len, given)) == pytest.approx(found["precision"])
        assert both / sum(map(len, expected)) == pytest.approx(found["recall"])


@pytest.mark.parametrize(("kind", "percent"), [("mask", 20.0), ("diff", 5.0)])
def test_hidden_and_changed_weights_learn_go_on_learning_and_answer_as_they_were_trained(
    branch: Branch, tmp_path: Path, kind: str, percent: float
) -> None:
    files = dataset(tmp_path, "classification")
    alone = replace(SMALL, adapter=0, epochs=6)
    settings = replace(alone, mask=percent) if kind == "mask" else replace(alone, diff=percent)
    report = tune(branch, files, tmp_path / "out", settings=settings)
    assert report["dev"]["value"] > report["dev"]["majority_baseline"] + 0.25
    pet = Hplm.load(tmp_path / "out").pet
    for name, value in pet.weights.items():
        changed = (value == 0 if kind == "mask" else value != 0).flatten(1).float().mean(1)
        assert (changed <= percent / 100 + 0.01).all(), name
    found = score(branch, tmp_path / "out", files.dev, "classification", files.train)
    assert found["value"] == report["dev"]["value"]
    again = tune(
        branch, files, tmp_path / "more", settings=replace(settings, epochs=1), start_from=tmp_path / "out"
    )
    assert again["warm_start"]["pet"]
    assert again["dev"]["value"] >= report["dev"]["value"] - 0.1


def test_the_cascade_is_stored_with_the_model_and_reported(tuned: dict[str, Any]) -> None:
    profile, report = CascadeProfile.load(tuned["out"]), tuned["report"]
    assert profile is not None
    assert profile.rows == report["dev"]["rows"]
    assert profile.table.metric == report["dev"]["value"]
    assert report["cascade"] == summary(profile)
    assert profile.costs is not None
    assert min(profile.table.milliseconds, profile.full.milliseconds) > 0


@pytest.mark.parametrize("policy", AnswerPolicy)
def test_the_metric_of_an_evaluation_is_that_of_its_policy(
    branch: Branch, tuned: dict[str, Any], tmp_path: Path, policy: AnswerPolicy
) -> None:
    files, task = tuned["files"], tuned["task"]
    found = score(branch, tuned["out"], files.test, task, answers=tmp_path / "answers", policy=policy)
    assert found["policy"] == policy
    assert found["value"] == found["levels"][policy]
    kept = answers_read(tmp_path / "answers").answered
    assert all(one.score is not None and 0 < one.score <= 1 for one in kept)
    right = {"classification": found["value"], "tagging": None}[task]
    assert right in (None, pytest.approx(np.mean([one.right for one in kept])))


@pytest.mark.parametrize("tuned", ["classification"], indirect=True)
def test_a_cascade_in_which_every_text_goes_on_answers_as_the_level_full_if_that_alone_counts(
    branch: Branch, tuned: dict[str, Any], tmp_path: Path
) -> None:
    profile = CascadeProfile.load(tuned["out"])
    assert profile is not None
    everything = replace(profile.candidate(), cutoff=1 - 1e-9, weight=1.0, platt=profile.full.platt)
    unsure = replace(profile.table, temperature=10.0)
    serves = AnswerPolicy.CASCADE
    replace(profile, table=unsure, candidates=(everything,), chosen=0, serves=serves).save(tmp_path)

    def scores(policy: AnswerPolicy) -> list[float | None]:
        file, answers = tuned["files"].test, tmp_path / policy
        score(branch, tuned["out"], file, tuned["task"], answers=answers, policy=policy, cascade=tmp_path)
        return [one.score for one in answers_read(answers).answered]

    assert scores(AnswerPolicy.CASCADE) == up_to_rounding(scores(AnswerPolicy.FULL))


def test_a_model_without_a_cascade_gets_the_one_that_fine_tuning_would_have_fitted(
    branch: Branch, tuned: dict[str, Any], tmp_path: Path
) -> None:
    files, task = tuned["files"], tuned["task"]
    plain = shutil.copytree(tuned["out"], tmp_path / "plain")
    (plain / CASCADE_FILE).unlink()
    bare = score(branch, plain, files.test, task, policy=AnswerPolicy.CASCADE)
    assert "cascade" not in bare
    found = score(branch, plain, files.test, task, dev_file=files.dev, profile_out=tmp_path / "fitted")
    fitted, earlier = CascadeProfile.load(tmp_path / "fitted"), CascadeProfile.load(tuned["out"])
    assert fitted is not None
    assert earlier is not None
    # The stored weights are rounded.
    assert fitted.full.temperature == pytest.approx(earlier.full.temperature, rel=0.01)
    assert [one.metric for one in fitted.candidates] == [one.metric for one in earlier.candidates]
    assert [one.escalated for one in fitted.candidates] == [one.escalated for one in earlier.candidates]
    assert found["cascade"] == summary(fitted)
    levels = score(branch, tuned["out"], files.test, task)["levels"]
    assert {name: found["levels"][name] for name in ("table", "full")} == {
        name: levels[name] for name in ("table", "full")
    }
    again = score(branch, plain, files.test, task, dev_file=files.test, cascade=tmp_path / "fitted")
    assert again["levels"] == found["levels"]
    assert "cascade" not in again


def test_labels_seed_and_metrics_are_stored_with_it(tuned: dict[str, Any]) -> None:
    stored, report = Hplm.load(tuned["out"]), tuned["report"]
    assert list(stored.labels) == report["labels"]
    assert stored.task == tuned["task"]
    assert stored.metadata["seed"] == SMALL.seed
    assert stored.metadata["dev"]["value"] == report["dev"]["value"]
    assert stored.pet.spec == SMALL.spec


def test_report_has_the_share_of_truncated_texts(
    branch: Branch, tuned: dict[str, Any], tmp_path: Path
) -> None:
    rows = ROWS[tuned["task"]](3, 1)
    if "text" in rows[0]:
        rows[0]["text"] += " river" * 100
    else:
        rows[0] = {
            "tokens": ["river"] * 100 + ["doctor", "x"],
            "tags": ["O"] * 100 + ["B-person", "I-person"],
        }
    file = json_lines(tmp_path / "rows.jsonl", rows)
    assert score(branch, tuned["out"], file, tuned["task"])["truncated_share"] == pytest.approx(1 / 3)


def test_training_stops_when_the_dev_split_gets_no_better(branch: Branch, tmp_path: Path) -> None:
    files = dataset(tmp_path, "classification", train=40)
    still = replace(SMALL, epochs=10, learning_rate=1e-12, patience=2)
    report = tune(branch, files, tmp_path / "out", settings=still)
    assert len(report["epochs"]) == 3
    assert report["best_epoch"] == 3, "of equally good epochs, the last"


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"min_steps": 20}, 10),
        ({"min_steps": 20, "max_epochs": 2}, 2),
        ({"min_steps": 2}, DEFAULT_EPOCHS),
        ({"epochs": 2, "min_steps": 1000}, 2),
    ],
)
def test_small_splits_get_epochs_until_the_minimum_steps_unless_epochs_are_chosen(
    settings: dict[str, Any], limit: int
) -> None:
    assert FineTuneSettings(**settings).epoch_limit(2) == limit


def test_one_label_is_refused_before_anything_is_written(branch: Branch, tmp_path: Path) -> None:
    files = dataset(tmp_path, "classification")
    rows = [{"text": row["text"], "label": "a"} for row in classification_rows(20, 0)]
    with pytest.raises(HplmError) as caught:
        tune(branch, replace(files, train=json_lines(tmp_path / "one.jsonl", rows)), tmp_path / "out")
    assert caught.value.code == "one_label"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("check", [1, 4, 10, 25])
def test_a_cancel_is_obeyed_within_a_step_and_leaves_nothing(
    branch: Branch, tmp_path: Path, check: int
) -> None:
    files = dataset(tmp_path, "classification")
    cancel = CancelAt(check)
    with pytest.raises(Cancelled):
        tune(branch, files, tmp_path / "out", reporter=cancel)
    assert cancel.late_steps == 0
    assert not (tmp_path / "out").exists()


def test_the_share_of_mixed_texts_is_read_through_the_original_layers(branch: Branch, tmp_path: Path) -> None:
    files = dataset(tmp_path, "classification", train=64)
    once = replace(SMALL, epochs=1)
    ways = {
        "all mixed": replace(once, full_context_share=1.0),
        "original": replace(once, lower_mode="full"),
        "looked up": once,
    }
    for name, settings in ways.items():
        tune(branch, files, tmp_path / name, settings=settings)
    weights = {name: (tmp_path / name / "hplm.safetensors").read_bytes() for name in ways}
    assert weights["all mixed"] == weights["original"] != weights["looked up"]


@pytest.mark.parametrize("lower_mode", ["table", "full"])
def test_fine_tuning_under_autocast_to_bfloat16(branch: Branch, tmp_path: Path, lower_mode: Any) -> None:
    """As on machines with native bfloat16; elsewhere PyTorch emulates it."""
    settings = replace(
        SMALL,
        precision="bfloat16",
        lower_mode=lower_mode,
        full_context_share=0.5,
        epochs=1,
        lora=2,
        norms=True,
    )
    report = fine_tune(
        root=branch.root,
        plots=[branch.plot],
        lower=branch.lower,
        dataset=dataset(tmp_path, "classification"),
        task="classification",
        out=tmp_path / "out",
        settings=settings,
        reporter=NullReporter(),
    )
    assert 0 <= report["dev"]["value"] <= 1

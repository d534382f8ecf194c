"""Every kind of task from labelled rows to a stored model that answers."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.cascade.dispatcher import AnswerPolicy
from inference.hplm.hplm import Hplm
from tests.unit.tiny import WORDS
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import NullReporter, json_lines
from versiontree.tree.evaluation_answers import answers_read
from workers.training.datasets import DatasetFiles
from workers.training.evaluate import EvaluateSettings, evaluate
from workers.training.fine_tune import fine_tune
from workers.training.lower_states import LOWER_MODES, LowerMode
from workers.training.search import FineTuneSettings

pytestmark = pytest.mark.slow

FILLERS = WORDS[30:60]
SIGNS = {"happy": "joy", "blood": "medicine", "poor": "need"}
SETTINGS = FineTuneSettings(
    precision="float32",
    lora=4,
    learning_rate=1e-2,
    full_context_share=0.0,
    patience=9,
    dropout=0.0,
    epochs=10,
)
Row = dict[str, Any]


def pair_row(draw: random.Random) -> Row:
    """The second text decides, whatever the first says."""
    first, second = (draw.choice(list(SIGNS)) for _ in range(2))
    return {"text": f"{first} {fill(draw)}", "text_pair": " ".join([second] * 3), "label": SIGNS[second]}


def multilabel_row(draw: random.Random) -> Row:
    chosen = [word for word in SIGNS if draw.random() < 0.4]
    return {"text": " ".join([*chosen, *chosen, fill(draw)]), "labels": [SIGNS[word] for word in chosen]}


def regression_row(draw: random.Random) -> Row:
    count = draw.randint(0, 4)
    return {"text": " ".join(["happy"] * count + [fill(draw)]), "value": 100.0 + 10 * count}


def question_row(draw: random.Random) -> Row:
    """The answer is "doctor" and the word after it; some contexts hold none."""
    words = draw.choices(FILLERS, k=6)
    context = " ".join(words)
    if draw.random() < 0.25:
        return {"question": "who", "context": context, "answers": []}
    answer = f"doctor {draw.choice(FILLERS)}"
    context = f"{' '.join(words[:3])} {answer} {' '.join(words[3:])}"
    return {
        "question": "who",
        "context": context,
        "answers": [{"text": answer, "start": context.index(answer)}],
    }


def fill(draw: random.Random) -> str:
    return " ".join(draw.choices(FILLERS, k=3))


KINDS: dict[str, tuple[str, Callable[[random.Random], Row], float]] = {
    "pairs": ("classification", pair_row, 0.3),
    "multilabel": ("multilabel", multilabel_row, 0.3),
    "regression": ("regression", regression_row, 0.7),
    "question_answering": ("question_answering", question_row, 0.3),
}


def files_of(folder: Path, row: Callable[[random.Random], Row], train: int = 240) -> DatasetFiles:
    sizes = {"train": train, "dev": 60, "test": 60}
    return DatasetFiles(
        **{
            name: json_lines(folder / f"{name}.jsonl", [row(draw) for _ in range(size)])
            for seed, (name, size) in enumerate(sizes.items())
            for draw in [random.Random(seed)]
        }
    )


def tune(
    branch: Branch, files: DatasetFiles, task: str, out: Path, start_from: Path | None = None, **changes: Any
) -> dict[str, Any]:
    return fine_tune(
        root=branch.root,
        plots=[branch.plot],
        dataset=files,
        task=task,
        out=out,
        settings=replace(SETTINGS, **changes),
        reporter=NullReporter(),
        start_from=start_from,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_that_can_be_learnt_is_learnt_and_answers_the_same_once_stored_and_updated(
    branch: Branch, tmp_path: Path, kind: str
) -> None:
    task, row, gain = KINDS[kind]
    files = files_of(tmp_path, row)
    report = tune(branch, files, task, tmp_path / "out")
    assert report["dev"]["value"] > report["dev"]["majority_baseline"] + gain
    found = evaluate(
        root=branch.root,
        plots=[branch.plot],
        hplm=tmp_path / "out",
        dataset_file=files.dev,
        train_file=files.train,
        task=task,
        reporter=NullReporter(),
        settings=EvaluateSettings(precision="float32", policy=AnswerPolicy.TABLE),
        answers=tmp_path / "answers",
    )
    check_answers(tmp_path / "answers", files.dev, found)
    assert found["value"] == pytest.approx(report["dev"]["value"], abs=0.02)
    stored = Hplm.load(tmp_path / "out")
    assert stored.task == task
    assert stored.pairs == (kind in ("pairs", "question_answering"))
    still = {"epochs": 1, "min_steps": 0, "max_epochs": 1, "learning_rate": 1e-12}
    update = tune(branch, files, task, tmp_path / "update", tmp_path / "out", **still)
    told = "mean_absolute_error" if kind == "regression" else "value"
    assert update["dev"][told] == pytest.approx(report["dev"][told], rel=0.02)


def check_answers(folder: Path, file: Path, metrics: dict[str, Any]) -> None:
    """What was kept of each row agrees with the row itself and with the figures."""
    kept = answers_read(folder)
    assert (kept.rows, kept.sampled) == (metrics["rows"], False)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    gold: dict[str, Callable[[Row], Any]] = {
        "classification": lambda row: row["label"],
        "multilabel": lambda row: sorted(row["labels"]),
        "regression": lambda row: row["value"],
        "question_answering": lambda row: [answer["text"] for answer in row["answers"]],
    }
    assert [one.gold for one in kept.answered] == [gold[kept.task](row) for row in rows]
    if kept.task == "regression":
        off = [abs(one.gold - one.answer) for one in kept.answered]
        assert sum(off) / len(off) == pytest.approx(metrics["mean_absolute_error"])
        return
    share = {"classification": "value", "multilabel": "exact", "question_answering": "exact_match"}
    rights = [one.right for one in kept.answered]
    assert sum(map(bool, rights)) / len(rights) == pytest.approx(metrics[share[kept.task]])
    assert all(one.score is not None and 0 <= one.score <= 1 for one in kept.answered)


@pytest.mark.parametrize("way", LOWER_MODES)
def test_the_lower_half_is_made_in_the_way_that_is_asked_for(
    branch: Branch, tmp_path: Path, way: LowerMode
) -> None:
    files = files_of(tmp_path, multilabel_row, train=40)
    report = fine_tune(
        root=branch.root,
        plots=[branch.plot],
        lower=branch.lower,
        dataset=files,
        task="multilabel",
        out=tmp_path / "out",
        settings=FineTuneSettings(
            precision="float32", lora=2, full_context_share=0.5, epochs=1, min_steps=0, lower_mode=way
        ),
        reporter=NullReporter(),
    )
    hits = report["dev"]["plot_hits"]
    assert hits["computed"] == (way == "full")
    looked_up = hits["trigram"] + hits["bigram"] + hits["unigram"]
    assert looked_up == pytest.approx(float(way == "table"), abs=1e-3)

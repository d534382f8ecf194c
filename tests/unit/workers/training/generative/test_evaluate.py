"""Evaluating a generative model: its metrics, and the answers that are kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.inference.generation.decoder_world import random_lora
from tests.unit.tiny_decoder import tiny_decoder
from tests.unit.workers.training.generative.world import chat_rows, prompt_rows, tiny_tokenizer
from tests.unit.workers.training.world import NullReporter, json_lines
from versiontree.tree.evaluation_answers import EvaluationAnswers, answers_read
from workers.training.datasets import DatasetFiles
from workers.training.generative.evaluate import evaluate_generative
from workers.training.generative.fine_tune import GenerativeSettings
from workers.training.generative.metrics import rouge_l

REPEATED = [
    {"prompt": "what? ", "completion": "yes"},
    {"prompt": "why? ", "completion": "because"},
    {"prompt": "what? ", "completion": "no"},
]


def evaluated(
    folder: Path, rows: list[dict[str, Any]], *, task: str = "generation", prompts: int = 200
) -> tuple[dict[str, Any], EvaluationAnswers, Path]:
    """The metrics, the stored answers, and the test file of a LoRA that learned nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    decoder = tiny_decoder()
    file = json_lines(folder / "test.jsonl", rows)
    metrics = evaluate_generative(
        decoder=decoder,
        tokenizer=tiny_tokenizer(),
        lora=random_lora(decoder, 1),
        dataset=DatasetFiles(train=file, dev=file, test=file),
        task=task,
        settings=GenerativeSettings(test_prompts=prompts, new_tokens=8),
        reporter=NullReporter(),
        out=folder / "answers",
    )
    return metrics, answers_read(folder / "answers"), file


@pytest.mark.parametrize(("task", "rows"), [("generation", prompt_rows), ("chat", chat_rows)])
def test_each_answer_is_stored_with_its_row_its_reference_and_its_rouge_l(
    task: str, rows: Any, tmp_path: Path
) -> None:
    metrics, stored, file = evaluated(tmp_path, rows(20, 0), task=task)
    assert (stored.task, stored.rows) == (task, 20)
    assert len(stored.answered) == metrics["answers"]
    scores = [one.score for one in stored.answered]
    assert sum(filter(None, scores)) / len(scores) == pytest.approx(metrics["value"], abs=1e-4)
    content = file.read_bytes()
    for one in stored.answered:
        row = json.loads(content[one.at :].split(b"\n", 1)[0])
        reference = row["completion"] if task == "generation" else row["messages"][-1]["content"]
        assert one.gold == reference
        assert one.score == pytest.approx(rouge_l([[reference]], [one.answer]), abs=1e-4)


def test_rows_with_the_same_prompt_are_answered_once_at_the_first_of_them(tmp_path: Path) -> None:
    metrics, stored, _ = evaluated(tmp_path, REPEATED)
    assert (metrics["rows"], metrics["answers"], stored.rows) == (3, 2, 3)
    assert [one.row for one in stored.answered] == [1, 2]
    assert stored.answered[0].gold in ("yes", "no")
    assert stored.sampled

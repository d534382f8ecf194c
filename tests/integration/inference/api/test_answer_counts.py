"""What is counted of the answers of a version: by a real inference worker, over HTTP and in batches."""

import io
import json
from typing import Any

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from tenants.usage.models import AnswerDay
from tests.background import run_batch
from tests.integration.inference.api.conftest import Ask, Served
from tests.processes import InferenceWorker
from tests.unit.tiny import tiny_texts

pytestmark = pytest.mark.usefixtures("worker")
TEXTS = [*tiny_texts(20), "zebra quixotic", "x"]
ALL = len(TEXTS)


def counted(model: str = "graded") -> AnswerDay:
    """The one row of its version 1."""
    return AnswerDay.unscoped.get(model_name=model, version=1)


def first_confidences(answer: dict[str, Any]) -> float:
    return float(sum(result.get("table", result)["confidence"] for result in answer["results"]))


def test_cascade_counts_confidence_and_escalated_texts(ask: Ask) -> None:
    answer = ask("graded", TEXTS, quality="balanced").json()
    row = counted()
    escalated = sum("table" in result for result in answer["results"])
    assert 0 < escalated < ALL
    assert (row.texts, row.table_texts, row.cascade_texts, row.escalated_texts) == (ALL, ALL, ALL, escalated)
    assert row.confidence == pytest.approx(first_confidences(answer), abs=1e-4)
    assert (row.whole, row.part, row.unigram) == tuple(
        answer["plot"][name] for name in ("trigram", "bigram", "unigram")
    )
    ask("graded", TEXTS[:3], quality="balanced")
    assert counted().texts == ALL + 3


def test_levels_that_a_request_chose_are_no_decision_of_the_cascade(ask: Ask) -> None:
    fast = ask("graded", TEXTS, quality="fast").json()
    row = counted()
    assert (row.texts, row.table_texts, row.cascade_texts, row.escalated_texts) == (ALL, ALL, 0, 0)
    assert row.confidence == pytest.approx(first_confidences(fast), abs=1e-4)
    exact = ask("graded", TEXTS, quality="exact").json()
    after = counted()
    assert (after.texts, after.table_texts, after.cascade_texts) == (2 * ALL, ALL, 0)
    assert (after.whole, after.part, after.unigram) == (row.whole, row.part, row.unigram)
    assert after.confidence - row.confidence == pytest.approx(first_confidences(exact), abs=1e-4)


def test_a_target_of_a_request_is_no_choice_of_the_version(ask: Ask) -> None:
    answer = ask("graded", TEXTS, target=0.85).json()
    assert any("table" in result for result in answer["results"])
    row = counted()
    assert (row.texts, row.table_texts, row.cascade_texts, row.escalated_texts) == (ALL, ALL, 0, 0)


def test_embeddings_and_refused_requests_count_for_nothing(ask: Ask, served: Served) -> None:
    ask("graded", [""])
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    sent = client.post("/v1/embeddings", {"model": "graded", "input": TEXTS[:2]}, format="json")
    assert sent.status_code == 200, sent.content
    assert not AnswerDay.unscoped.exists()


def test_a_request_that_fails_counts_as_that_and_nothing_else(ask: Ask, busy: InferenceWorker) -> None:
    assert ask("graded", TEXTS[:2], timeout_s=0.2).status_code == 504
    row = counted()
    assert (row.requests, row.failed, row.texts) == (1, 1, 0)
    busy.resume()
    assert ask("graded", TEXTS[:2], quality="fast").status_code == 200
    row = counted()
    assert (row.requests, row.failed, row.texts) == (2, 1, 2)


def test_a_batch_counts_its_answers_and_not_its_errors(db: None, served: Served, settings: Settings) -> None:
    settings.HMI_POLICY = "table"
    file = io.BytesIO("\n".join([*map(json.dumps, TEXTS), "{broken"]).encode())
    file.name = "in.jsonl"
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    sent = client.post("/api/v1/batches", {"model": "graded", "file": file}, format="multipart")
    run_batch(sent.json()["id"])
    row = counted()
    assert (row.texts, row.table_texts, row.cascade_texts) == (ALL, ALL, 0)
    assert row.mean_confidence is not None
    assert 0 < row.mean_confidence <= 1

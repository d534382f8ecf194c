"""Batches of tables and plain texts, answered by a real inference worker."""

import csv
import io
from typing import Any

import pytest
from rest_framework.test import APIClient

from inference.batches.models import Batch
from inference.batches.tables import TableRow, answer_rows
from tenants.datasets.models import File
from tests.background import run_batch
from tests.integration.inference.api.conftest import Served
from tests.processes import InferenceWorker

CSV = (
    "id;Message;answer;amount\r\n"
    '1;"the river; ""stone""\nby the city";yes;-5\r\n'
    "2;  ;no;=1\r\n"
    "3;a poor doctor;yes;0;too much\r\n"
    "4;the city;;1\r\n"
)
TEXTS = ("the river", "the city", "a stone")
Row = dict[str, str]


@pytest.fixture
def api(db: None, served: Served) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {served.key}")
    return client


def sent(api: APIClient, content: str, name: str, **fields: str) -> Any:
    file = io.BytesIO(content.encode())
    file.name = name
    return api.post("/api/v1/batches", {"model": "mood", "file": file, **fields}, format="multipart")


def answered(api: APIClient, batch: dict[str, Any]) -> list[Row]:
    response: Any = api.get(f"/api/v1/batches/{batch['id']}/results")
    assert response.headers["Content-Type"] == "text/csv", response.content
    content = b"".join(response.streaming_content).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(content, newline="")))


def test_a_table_comes_back_with_an_answer_or_an_error_in_each_row(
    api: APIClient, worker: InferenceWorker
) -> None:
    response = sent(api, CSV, "tickets.csv")
    assert response.status_code == 201, response.content
    batch = response.json()
    assert batch["columns"] == {"text": "Message"}
    run_batch(batch["id"])
    told = api.get(f"/api/v1/batches/{batch['id']}").json()
    assert (told["state"], told["lines"], told["succeeded"], told["failed"]) == ("completed", 4, 2, 2)
    rows = answered(api, batch)
    assert [*rows[0]] == ["id", "Message", "answer", "amount", "answer_2", "confidence", "error"]
    assert [row["id"] for row in (rows[0], rows[1], rows[3])] == ["1", "2", "4"]
    assert [row["amount"] for row in (rows[0], rows[1])] == ["-5", "=1"], "cells of the sender are kept"
    assert rows[2]["id"] == "3;a poor doctor;yes;0;too much"
    assert [bool(row["answer_2"]) for row in rows] == [True, False, False, True]
    assert [row["error"] for row in (rows[0], rows[3])] == ["", ""]
    assert "empty" in rows[1]["error"]
    assert "has 5 fields where the header has 4" in rows[2]["error"]
    direct = api.post("/api/v1/infer", {"model": "mood", "inputs": ["the city"]}, format="json").json()
    assert rows[3]["answer_2"] == direct["results"][0]["label"]
    assert float(rows[3]["confidence"]) == pytest.approx(direct["results"][0]["confidence"], abs=1e-3)


def test_plain_text_has_a_text_a_line(api: APIClient, worker: InferenceWorker) -> None:
    batch = sent(api, "the river, by the city\n\na poor doctor\n", "notes.txt").json()
    run_batch(batch["id"])
    rows = answered(api, batch)
    assert [row["text"] for row in rows] == ["the river, by the city", "a poor doctor"]
    assert all(row["answer"] for row in rows)


def test_rows_that_a_canceled_batch_did_not_reach_say_so() -> None:
    rows = [TableRow([text], {"text": text}) for text in TEXTS]
    results = [b'{"line": 1, "result": {"label": "calm", "confidence": 0.9}}']
    errors = [b'{"line": 3, "error": {"message": "It is too long."}}']
    assert list(answer_rows(rows, 1, [results, errors], "cancelled")) == [
        ["the river", "calm", 0.9, ""],
        ["the city", "", "", "Not answered: the batch is canceled."],
        ["a stone", "", "", "It is too long."],
    ]


@pytest.mark.parametrize(
    ("content", "columns", "words"),
    [
        ("id,words of it\n1,the city\n", "", "Choose the column for text. The file has: id, words of it."),
        ("id,text\n1,the city\n", '{"text": "texts"}', "There is no column 'texts'. The file has: id, text."),
        ("id,text\n1,the city\n", '{"prompt": "text"}', "mood does not read 'prompt'. It reads text."),
        ("id,text\n", "", "The file has no rows."),
    ],
)
def test_a_table_without_its_column_is_refused_and_not_stored(
    api: APIClient, content: str, columns: str, words: str
) -> None:
    before = File.unscoped.count()
    response = sent(api, content, "tickets.csv", **({"columns": columns} if columns else {}))
    assert (response.status_code, response.json()["error"]["message"]) == (422, words)
    assert (Batch.unscoped.count(), File.unscoped.count()) == (0, before)

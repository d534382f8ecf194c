"""`hmi batch` against a server that answers what a test wrote down."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.hmi_client.conftest import Hmi
from tests.integration.hmi_client.scripted import Reply, Script
from tests.integration.hmi_client.test_command_options import MODEL, page

BATCH: dict[str, Any] = {
    "id": "b-1",
    "model": "mood",
    "filename": "tickets.csv",
    "columns": {"text": "message"},
    "state": "completed",
    "total_lines": 3,
    "lines": 3,
    "succeeded": 3,
    "failed": 0,
    "results_bytes": 7,
    "files_ready": True,
}
RUNNING = BATCH | {"state": "running", "lines": 1, "results_bytes": 0}
FAULT = Reply(404, {"error": {"type": "not_found", "code": "not_found", "message": "Gone.", "param": None}})


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    file = tmp_path / "tickets.csv"
    file.write_text("id,message\n1,the river\n2,the city\n3,a stone\n")
    return file


def uploads(file: Path) -> list[Reply]:
    size = file.stat().st_size
    upload = {"id": "u-1", "filename": file.name, "size_bytes": size, "offset": size}
    return [
        page(),
        Reply(201, None, {"Location": "/api/v1/uploads/u-1"}),
        Reply(204, None, {"Upload-Offset": str(size)}),
        Reply(body=upload),
    ]


def test_rows_are_answered_by_the_only_model(server: Script, hmi: Hmi, tickets: Path, tmp_path: Path) -> None:
    answered = Reply(body=b"id,answer\n")
    server.replies = [page(MODEL), *uploads(tickets), Reply(201, BATCH), Reply(body=BATCH), answered]
    ended = hmi("batch", tickets, "--column", "message", "-o", "out.csv")
    assert ended.code == 0, ended.err
    assert "3 rows answered, 0 failed." in ended.err
    assert (tmp_path / "out.csv").read_text() == "id,answer\n"
    created = next(one for one in server.asked if one.path == "/api/v1/batches")
    assert created.body == {"model": "mood", "upload": "u-1", "columns": {"input": "message"}}
    assert [one.name for one in tmp_path.glob("out.csv*")] == ["out.csv"]


def test_an_interrupted_run_goes_on_with_the_same_batch(
    server: Script, hmi: Hmi, tickets: Path, tmp_path: Path
) -> None:
    server.replies = [*uploads(tickets), Reply(201, RUNNING), FAULT]
    assert hmi("batch", tickets, "--model", "mood", "-o", "out.csv").code == 4
    failed = BATCH | {"succeeded": 2, "failed": 1}
    server.replies, server.asked[:] = [Reply(body=RUNNING), Reply(body=failed), Reply(body=b"rows\n")], []
    ended = hmi("batch", tickets, "--model", "mood", "-o", "out.csv", "--json")
    assert (ended.code, json.loads(ended.err)["error"]["code"]) == (1, "lines_failed")
    assert json.loads(ended.out)["answers_file"] == "out.csv"
    assert {one.method for one in server.asked} == {"GET"}, "nothing is sent again"
    assert (tmp_path / "out.csv").read_text() == "rows\n"


def test_a_changed_file_begins_a_batch_of_its_own(server: Script, hmi: Hmi, tickets: Path) -> None:
    server.replies = [*uploads(tickets), Reply(201, RUNNING), FAULT]
    hmi("batch", tickets, "--model", "mood")
    tickets.write_text("message\nanother\n")
    server.replies = [*uploads(tickets), Reply(201, BATCH), Reply(body=BATCH), Reply(body=b"rows\n")]
    assert hmi("batch", tickets, "--model", "mood").code == 0
    assert tickets.with_name("tickets-answers.csv").read_text() == "rows\n"


def test_several_models_are_named_and_json_lines_have_a_command_of_their_own(
    server: Script, hmi: Hmi, tickets: Path
) -> None:
    server.replies = [page(MODEL, MODEL | {"name": "topics"})]
    refused = hmi("batch", tickets)
    assert "Choose a model with --model. Your models: mood, topics." in refused.err
    lines = tickets.with_suffix(".jsonl")
    lines.write_text('"a text"\n')
    assert "hmi batches run" in hmi("batch", lines).err

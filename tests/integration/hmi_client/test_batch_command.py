"""`hmi batches` against a server that answers what a test wrote down."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.hmi_client.conftest import Hmi
from tests.integration.hmi_client.scripted import Reply, Script

BATCH: dict[str, Any] = {
    "id": "b-1",
    "model": "mood",
    "filename": "texts.jsonl",
    "state": "completed",
    "total_lines": 3,
    "lines": 3,
    "succeeded": 2,
    "failed": 1,
    "results_bytes": 4,
    "errors_bytes": 4,
    "files_ready": True,
}


def fetches(server: Script, **batch: Any) -> None:
    """The batch has ended in this way, and has files of these sizes."""
    ended = BATCH | batch
    server.replies = [Reply(body=ended), Reply(body=ended)]
    server.replies += [
        Reply(body=f"{kind}\n".encode()) for kind in ("results", "errors") if ended[f"{kind}_bytes"]
    ]


def test_failed_lines_end_the_command_with_1(server: Script, hmi: Hmi, tmp_path: Path) -> None:
    fetches(server)
    ended = hmi("batches", "fetch", "b-1")
    assert ended.code == 1
    assert "1 of 3 lines failed. texts-errors.jsonl has the reasons." in ended.err
    assert "Answers: texts-results.jsonl" in ended.err
    assert (tmp_path / "texts-errors.jsonl").read_text() == "errors\n"
    fetches(server)
    told = hmi("batches", "fetch", "b-1", "--out", "a", "--errors", "b", "--json")
    assert (told.code, json.loads(told.err)["error"]["code"]) == (1, "lines_failed")
    assert (json.loads(told.out)["results_file"], json.loads(told.out)["errors_file"]) == ("a", "b")


def test_batch_without_failed_lines_ends_the_command_with_0(server: Script, hmi: Hmi) -> None:
    fetches(server, failed=0, errors_bytes=0, succeeded=3)
    ended = hmi("batches", "fetch", "b-1", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out)["errors_file"] is None


def test_failed_batch_is_shown_with_its_line(server: Script, hmi: Hmi) -> None:
    error = {"code": "not_found", "message": "There is no such model.", "param": "model", "line": 2}
    fetches(server, state="failed", error=error, results_bytes=0, errors_bytes=0)
    ended = hmi("batches", "fetch", "b-1")
    assert ended.code == 1
    assert "Line 2: There is no such model." in ended.err


@pytest.mark.parametrize(("option", "file"), [("--out", "answers"), ("--errors", "failures")])
def test_existing_file_is_replaced_only_with_overwrite(
    server: Script, hmi: Hmi, tmp_path: Path, option: str, file: str
) -> None:
    kept, texts = tmp_path / file, tmp_path / "texts.jsonl"
    kept.write_text("precious")
    texts.write_text('"a text"\n')
    refused = hmi("batches", "run", "mood", texts, option, file)
    assert (refused.code, server.asked) == (2, [])
    assert "exists" in refused.err
    assert "--overwrite" in refused.err
    server.replies = [Reply(body=BATCH)]
    assert hmi("batches", "fetch", "b-1", option, file).code == 2
    assert kept.read_text() == "precious"
    fetches(server)
    assert hmi("batches", "fetch", "b-1", option, file, "--overwrite").code == 1
    assert kept.read_text() in ("results\n", "errors\n")

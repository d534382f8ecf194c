"""What `hmi` prints and sends, against a server that answers what a test wrote down."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.hmi_client.conftest import Hmi
from tests.integration.hmi_client.scripted import Reply, Script, refusal

WEBHOOK: dict[str, Any] = {
    "id": "w-1",
    "url": "https://example.org/hook",
    "kinds": ["job.failed"],
    "enabled": True,
    "secret": "whsec_x",
}
DELIVERY: dict[str, Any] = {
    "id": "d-1",
    "event_id": "evt_1",
    "kind": "webhook.test",
    "state": "failed",
    "attempts": 1,
    "attempt_log": [{"status": 500, "error": "The receiver answered 500."}],
}
VERSION: dict[str, Any] = {
    "id": 7,
    "kind": "model",
    "name": "mood",
    "number": 2,
    "root": "tiny",
    "state": "ready",
    "config": {"settings": {"epochs": 3}},
    "metrics": {"fine_tune": {}},
}
MODEL: dict[str, Any] = {
    "name": "mood",
    "tenant": "acme",
    "task": "classification",
    "aliases": [{"name": "default", "version": 2}],
}


def page(*items: dict[str, Any]) -> Reply:
    """A list with these items."""
    return Reply(body={"next": None, "results": list(items)})


@pytest.mark.parametrize(
    ("arguments", "choice"),
    [
        (("data", "push", "{file}", "--task", "clasification"), "'classification'"),
        (("batches", "list", "--state", "done"), "'cancelled'"),
        (("webhooks", "create", "https://example.org", "--event", "job.done"), "'job.succeeded'"),
        (("models", "export", "mood", "--format", "zip"), "'peft'"),
    ],
)
def test_an_unknown_choice_is_refused_with_the_known_ones(
    server: Script, hmi: Hmi, tmp_path: Path, arguments: tuple[str, ...], choice: str
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("{}\n")
    refused = hmi(*(str(file) if each == "{file}" else each for each in arguments))
    assert (refused.code, server.asked) == (2, [])
    assert choice in refused.err


def test_versions_are_short_as_json_unless_all_is_asked_for(server: Script, hmi: Hmi) -> None:
    server.replies = [page(VERSION), page(VERSION)]
    (short,) = json.loads(hmi("models", "versions", "mood", "--json").out)
    assert (short["number"], short["state"]) == (2, "ready")
    assert not {"config", "metrics", "jobs"} & short.keys()
    (full,) = json.loads(hmi("models", "versions", "mood", "--json", "--full").out)
    assert full["config"] == VERSION["config"]


@pytest.mark.parametrize(
    ("metric", "loss"), [("accuracy", "0.3 points (-0.5 to 1.1)"), ("pearson", "0.003 (-0.005 to 0.011)")]
)
def test_versions_say_what_answers_what_that_loses_and_how_long_it_takes(
    server: Script, hmi: Hmi, metric: str, loss: str
) -> None:
    cascade = {
        "serves": "table",
        "loss": 0.003,
        "loss_interval": [-0.005, 0.011],
        "milliseconds": {"table": 4.1, "cascade": 4.1, "full": 8.4},
    }
    measured = {"fine_tune": {"cascade": cascade, "dev": {"metric": metric}}}
    server.replies = [page(VERSION, VERSION | {"metrics": measured})]
    shown = hmi("models", "versions", "mood").out
    assert loss in shown
    assert "4.1 of 8.4" in shown


def test_a_model_is_renamed(server: Script, hmi: Hmi) -> None:
    server.replies = [Reply(body=MODEL | {"name": "tone"})]
    renamed = hmi("models", "rename", "mood", "tone")
    assert (renamed.code, "mood is now tone." in renamed.err) == (0, True)
    (asked,) = server.asked
    assert (asked.method, asked.path.endswith("/models/mood"), asked.body) == (
        "PATCH",
        True,
        {"name": "tone"},
    )


def test_a_missing_column_is_refused_with_the_option_that_maps_it(
    server: Script, hmi: Hmi, tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"message": "a", "label": "b"}\n')
    upload = {"id": "u-1", "filename": "rows.jsonl", "size_bytes": 30, "offset": 30}
    details = {"needed": ["text", "label"], "missing": ["text"], "found": ["label", "message"]}
    error = {"code": "missing_column", "message": "Column 'text' is missing.", "details": details}
    check = {"id": "c-1", "kind": "dataset", "state": "refused", "error": error}
    server.replies = [
        page(),
        Reply(201, None, {"Location": "/api/v1/uploads/u-1"}),
        Reply(204, None, {"Upload-Offset": str(file.stat().st_size)}),
        Reply(body=upload),
        Reply(201, check),
    ]
    refused = hmi("data", "push", file, "--task", "classification")
    assert refused.code == 1
    assert "--column text=message" in refused.err


def test_a_training_that_is_waited_for_tells_a_pipe_its_place_its_step_and_the_time_left(
    server: Script, hmi: Hmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmi_client.operations.training.POLL_S", 0.0)
    monkeypatch.setattr("time.sleep", lambda _: None)
    states: list[dict[str, Any]] = [
        {"state": "queued", "queue_position": 3},
        {"state": "queued", "queue_position": 3},
        {"state": "running", "stage": "epoch 2 of 3", "progress": 0.42, "eta_seconds": 95.0},
        {"state": "succeeded", "progress": 1.0},
    ]
    server.replies = [Reply(body=MODEL), Reply(201, VERSION)]
    for state in states:
        summary = {"id": "j-1", "kind": "fine_tune", "state": state["state"]}
        server.replies += [
            Reply(body=VERSION | {"jobs": [summary]}),
            Reply(body=summary | {"version": 7} | state),
        ]
    server.replies += [Reply(body=VERSION), Reply(body=MODEL)]
    ended = hmi("train", "mood", "--data", "1", "--wait")
    assert ended.code == 0, ended.err
    assert ended.err.splitlines()[:3] == [
        "fine_tune: queued, place 3",
        "fine_tune: running, 42%, epoch 2 of 3, 0:01:35 left",
        "fine_tune: succeeded",
    ]


def test_new_model_that_is_waited_for_tells_as_soon_as_its_quick_version_answers(
    server: Script, hmi: Hmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    missing = refusal(404, "not_found", "invalid_request_error")
    quick = VERSION | {"id": 6, "number": 1, "quick": True}
    parent = VERSION | {"id": 1, "name": "tiny", "number": 1}
    server.replies = [missing, Reply(201, VERSION | {"parent": 1}), Reply(body=parent), page(VERSION, quick)]
    for state, quick_state in (("queued", "running"), ("running", "succeeded"), ("succeeded", "succeeded")):
        tune = {"id": "j-1", "kind": "fine_tune", "state": state}
        fit = {"id": "j-2", "kind": "quick", "state": quick_state}
        server.replies += [Reply(body=VERSION | {"jobs": [tune]}), Reply(body=quick | {"jobs": [fit]})]
        seen = state == "succeeded"  # a job that has ended is not asked for again
        server.replies += [Reply(body=job | {"version": 7}) for job in ([] if seen else [fit])]
        server.replies += [Reply(body=tune | {"version": 7})]
    server.replies += [Reply(body=VERSION), Reply(body=MODEL)]
    ended = hmi("train", "mood", "--data", "1", "--wait")
    assert ended.code == 0, ended.err
    assert ended.err.splitlines()[1:7] == [
        "quick: running, 0%",
        "fine_tune: queued",
        "quick: succeeded",
        "mood:1, a quick version, answers: hmi infer mood 'a text'",
        "fine_tune: running, 0%",
        "fine_tune: succeeded",
    ]
    assert server.asked[1].body["quick"] is True


def test_webhooks_are_made_tried_and_deleted(server: Script, hmi: Hmi) -> None:
    server.replies = [Reply(201, WEBHOOK)]
    made = hmi("webhooks", "create", "https://example.org/hook", "--event", "job.failed")
    assert (made.code, made.out) == (0, "whsec_x\n")
    assert server.asked[-1].body["kinds"] == ["job.failed"]
    server.replies = [page(WEBHOOK), Reply(201, DELIVERY), page(DELIVERY), Reply(201, DELIVERY)]
    assert "job.failed" in hmi("webhooks", "list").out
    assert hmi("webhooks", "test", "w-1").code == 0
    assert "The receiver answered 500." in hmi("webhooks", "deliveries", "w-1").out
    assert json.loads(hmi("webhooks", "replay", "w-1", "d-1", "--json").out)["id"] == "d-1"
    server.replies = [Reply(body=WEBHOOK), Reply(body=WEBHOOK), Reply(body=WEBHOOK), Reply(204)]
    assert hmi("webhooks", "rotate", "w-1", "--overlap", "0").out == "whsec_x\n"
    assert hmi("webhooks", "disable", "w-1").code == hmi("webhooks", "enable", "w-1").code == 0
    assert [each.body for each in server.asked[-3:]] == [
        {"overlap_s": 0},
        {"enabled": False},
        {"enabled": True},
    ]
    assert hmi("webhooks", "delete", "w-1", "--yes").code == 0
    assert (server.asked[-1].method, server.asked[-1].path) == ("DELETE", "/api/v1/webhooks/w-1")


def test_an_adapter_is_exported_and_not_over_a_file_that_exists(
    server: Script, hmi: Hmi, tmp_path: Path
) -> None:
    found = [Reply(body=MODEL), page(VERSION)]
    server.replies = [*found, Reply(body=b"PK")]
    assert hmi("models", "export", "mood", "--format", "peft").code == 0
    assert server.asked[-1].path == "/api/v1/versions/7/export?format=peft&branch=false"
    assert (tmp_path / "mood-v2-peft.zip").read_bytes() == b"PK"
    server.replies = [*found]
    refused = hmi("models", "export", "mood", "--format", "peft")
    assert (refused.code, "--overwrite" in refused.err) == (2, True)
    server.replies = [page(VERSION)]
    assert hmi("models", "export", "mood", "9").code == 4


def test_the_folder_of_an_adapter_is_zipped_and_imported_and_an_archive_sent_as_it_is(
    server: Script, hmi: Hmi, tmp_path: Path
) -> None:
    folder = tmp_path / "my-lora"
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    server.replies = [Reply(201, VERSION)]
    arguments = (
        "models",
        "import",
        folder,
        "--parent",
        "3",
        "--name",
        "mood",
        "--label",
        "no",
        "--label",
        "yes",
    )
    made = hmi(*arguments)
    assert (made.code, "mood:2 is ready" in made.err) == (0, True), made.err
    assert server.asked[-1].path == "/api/v1/import/adapter"
    sent = server.asked[-1].body
    assert b"adapter_config.json" in sent
    assert sent.count(b'name="labels"') == 2
    assert "Idempotency-Key" in server.asked[-1].headers
    archive = tmp_path / "mood.zip"
    with zipfile.ZipFile(archive, "w") as made_archive:
        made_archive.writestr("manifest.json", "{}")
    server.replies = [refusal(409, "missing_branch", "conflict")]
    refused = hmi("models", "import", archive)
    assert (refused.code, "--branch" in refused.err) == (5, True)
    assert server.asked[-1].path == "/api/v1/import"
    (tmp_path / "no.zip").write_text("not a zip file")
    assert hmi("models", "import", tmp_path / "no.zip").code == 2


def test_data_is_deleted_by_its_id_or_name(server: Script, hmi: Hmi) -> None:
    server.replies = [Reply(204), page({"id": 4, "name": "news", "rows": 1}), Reply(204)]
    assert hmi("data", "delete", "3", "--yes").code == 0
    assert server.asked[-1].path == "/api/v1/datasets/3"
    assert hmi("data", "delete", "news", "--corpus", "--yes").code == 0
    assert server.asked[-1].path == "/api/v1/corpora/4"

"""Fine-tuning jobs: from a file to a version, as the OpenAI conventions tell it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tenants.models import Dataset, Quota
from tenants.services.datasets import dataset_upload
from tests.integration.openai_api.conftest import Caller
from tests.integration.tenants.content import stream
from tests.integration.versiontree import grove
from tests.integration.versiontree.grove import Household
from tests.unit.tenants.files import jsonl, texts
from versiontree.models import FineTuning, Job, Version
from versiontree.services.fine_tunings import fine_tuning_begin
from versiontree.services.jobs import job_event, job_fail


def begin(job: dict[str, Any]) -> None:
    """What the worker does."""
    fine_tuning_begin(fine_tuning_id=FineTuning.unscoped.get(pk=job["id"].removeprefix("ftjob-")).pk)


def asked(client: Caller, rows: str | None = None, **body: Any) -> dict[str, Any]:
    """A fine-tuning job of these rows."""
    file = client.sends(rows or jsonl(texts(60))).json()["id"]
    made = client.asks("fine_tuning/jobs", **{"model": "bert", "training_file": file, **body})
    assert made.status_code == 200, made.json()
    job: dict[str, Any] = made.json()
    return job


def now(client: Caller, job: dict[str, Any]) -> dict[str, Any]:
    """The job as it stands."""
    shown: dict[str, Any] = client.get(f"/v1/fine_tuning/jobs/{job['id']}").json()
    return shown


def version_of(job: dict[str, Any]) -> Version:
    version = FineTuning.unscoped.get(pk=job["id"].removeprefix("ftjob-")).version
    assert version is not None
    return version


def test_a_job_goes_from_files_to_a_model_and_its_results(
    client: Caller, stranger: Caller, root: Version
) -> None:
    dev = client.sends(jsonl(texts(10, start=100))).json()["id"]
    job = asked(
        client,
        suffix="mood",
        validation_file=dev,
        seed=7,
        metadata={"team": "a"},
        method={
            "type": "supervised",
            "supervised": {"hyperparameters": {"n_epochs": 3, "learning_rate_multiplier": 2.0}},
        },
    )
    assert (job["object"], job["status"], job["fine_tuned_model"]) == (
        "fine_tuning.job",
        "validating_files",
        None,
    )
    assert (job["seed"], job["metadata"], job["validation_file"]) == (7, {"team": "a"}, dev)
    assert job["hyperparameters"] == {"n_epochs": 3, "batch_size": "auto", "learning_rate_multiplier": 2.0}

    begin(job)
    begin(job)
    assert now(client, job)["status"] == "queued"
    version = version_of(job)
    assert (version.name, version.number, Version.unscoped.filter(kind="hplm").count()) == ("mood", 1, 1)
    assert version.config["settings"] == {"epochs": 3, "minimum_steps": 0, "learning_rate": 2e-3, "seed": 7}
    assert {split.split: split.rows for split in version.dataset.splits.all()}["dev"] == 10  # type: ignore[union-attr]

    tuning, evaluating = grove.jobs_in_order(version)
    assert now(client, job)["hmi"] == {"jobs": [str(tuning.pk), str(evaluating.pk)], "version": version.pk}
    worker = grove.claim(tuning)
    assert now(client, job)["status"] == "running"
    for step in (10, 20):
        data = {"stage": "fine-tune", "step": step, "total": 20, "loss": 1.0 / step}
        job_event(job_id=tuning.pk, kind="metrics", data=data)
    Job.unscoped.filter(pk=tuning.pk).update(state="queued", worker="", lease_until=None)
    assert worker
    grove.do_job(tuning, test={"metric": "accuracy", "value": 0.75, "rows": 6}, labels=["bad", "good"])
    assert now(client, job)["status"] == "running"
    grove.claim(evaluating)
    heard = timezone.now()
    Job.unscoped.filter(pk=evaluating.pk).update(heartbeat_at=heard, eta_seconds=50)
    Job.unscoped.filter(pk=tuning.pk).update(heartbeat_at=heard - timedelta(hours=1))
    assert now(client, job)["estimated_finish"] == int(heard.timestamp() + 50)
    Job.unscoped.filter(pk=evaluating.pk).update(state="queued", worker="", lease_until=None)
    grove.do_job(evaluating)

    done = now(client, job)
    assert (done["status"], done["fine_tuned_model"], done["error"]) == ("succeeded", "acme/mood:1", None)
    assert done["finished_at"] >= done["created_at"]
    (results,) = done["result_files"]
    file = client.get(f"/v1/files/{results}").json()
    content = client.get(f"/v1/files/{results}/content").content
    assert (file["purpose"], file["bytes"]) == ("fine-tune-results", len(content))
    assert content.decode().splitlines() == [
        "step,loss,test_accuracy",
        "10,0.1,",
        "20,0.05,",
        "20,,0.75",
    ]
    (checkpoint,) = client.get(f"/v1/fine_tuning/jobs/{job['id']}/checkpoints").json()["data"]
    assert checkpoint["fine_tuned_model_checkpoint"] == "acme/mood:1"
    assert (checkpoint["step_number"], checkpoint["metrics"]) == (20, {"step": 20, "test_accuracy": 0.75})

    events = f"/v1/fine_tuning/jobs/{job['id']}/events"
    whole = client.get(events, {"limit": 100}).json()
    assert not whole["has_more"]
    assert {event["level"] for event in whole["data"]} == {"info"}
    (newest, *_) = [event for event in whole["data"] if event["type"] == "metrics"]
    assert newest["data"]["loss"] == 0.05
    assert newest["message"] == "Step 20/20: loss 0.05"
    first = client.get(events, {"limit": 3}).json()
    rest = client.get(events, {"limit": 100, "after": first["last_id"]}).json()
    assert first["has_more"]
    assert first["data"] + rest["data"] == whole["data"]

    for path in ("", "/events", "/checkpoints"):
        assert stranger.get(f"/v1/fine_tuning/jobs/{job['id']}{path}").status_code == 404
    assert stranger.asks(f"fine_tuning/jobs/{job['id']}/cancel").status_code == 404
    assert stranger.get(f"/v1/files/{results}/content").status_code == 404
    assert [row["id"] for row in client.get("/v1/fine_tuning/jobs").json()["data"]] == [job["id"]]
    assert stranger.get("/v1/fine_tuning/jobs").json()["data"] == []

    later = Job.unscoped.create(kind="evaluate", tenant=version.tenant, version=version, state="queued")
    again = client.asks(f"fine_tuning/jobs/{job['id']}/cancel")
    assert (again.status_code, again.headers["x-should-retry"]) == (409, "false")
    later.refresh_from_db()
    assert later.state == "queued"


def test_what_was_tuned_goes_on_to_a_further_version(client: Caller, root: Version) -> None:
    first = asked(client, suffix="mood")
    begin(first)
    grove.do_jobs(version_of(first))
    second = asked(client, model=now(client, first)["fine_tuned_model"])
    begin(second)
    grove.do_jobs(version_of(second))
    assert now(client, second)["fine_tuned_model"] == "acme/mood:2"
    assert now(client, first)["fine_tuned_model"] == "acme/mood:1"
    file = client.sends(jsonl(texts(60))).json()["id"]
    for body, code, param in [
        ({"model": "acme/mood:1"}, "invalid_field", "model"),
        ({"model": "acme/mood", "suffix": "other"}, "invalid_field", "suffix"),
    ]:
        refused = client.asks("fine_tuning/jobs", training_file=file, **body)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["param"]) == (400, code, param)


CHAT = [
    {
        "messages": [
            {"role": "system", "content": "Say how it is."},
            {"role": "user", "content": [{"type": "text", "text": f"number {n}"}]},
            {"role": "assistant", "content": ("good", "bad")[n % 2]},
        ]
    }
    for n in range(40)
]
PROMPTS = [{"prompt": f"number {n} ->", "completion": (" good", " bad")[n % 2]} for n in range(40)]
TAGS = [{"tokens": ["in", f"city{n}"], "tags": ["O", "B-PLACE"]} for n in range(40)]
BODIES = [{"body": f"number {n}", "mood": ("good", "bad")[n % 2]} for n in range(40)]
COLUMNS = {"task": "classification", "columns": {"text": "body", "label": "mood"}}


@pytest.mark.parametrize(
    ("rows", "hmi", "task", "line"),
    [
        (CHAT, {}, "classification", '"text":"number'),
        (PROMPTS, {}, "classification", '->","label":"'),
        (TAGS, {}, "tagging", '"B-PLACE"'),
        (BODIES, COLUMNS, "classification", '"label":"bad"'),
    ],
)
def test_rows_of_each_form_become_a_dataset(
    client: Caller, root: Version, upload_root: Path, rows: Any, hmi: Any, task: str, line: str
) -> None:
    job = asked(client, jsonl(rows), hmi=hmi)
    begin(job)
    shown = now(client, job)
    assert shown["status"] == "queued", shown["error"]
    dataset = version_of(job).dataset
    assert dataset is not None
    assert (dataset.task, sum(split.rows for split in dataset.splits.all())) == (task, 40)
    splits = [upload_root / split.sha256[:2] / split.sha256 for split in dataset.splits.all()]
    canonical = "".join(path.read_text() for path in splits).replace(": ", ":").replace(", ", ",")
    assert line in canonical
    assert "Say how it is." not in canonical


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        ("not json at all\n" * 20, "missing_column", "hmi.task"),
        (jsonl([*CHAT, {"messages": [{"role": "user", "content": "?"}]}]), "malformed_row", "row 41"),
        (jsonl(CHAT[:2]) + "\n" + jsonl([{"messages": "?"}]), "malformed_row", "row 3, line 4"),
        (jsonl([*PROMPTS, {"prompt": "?"}]), "missing_column", "row 41"),
        (jsonl(CHAT[::2]), "one_label", "good"),
        (jsonl(texts(3)), "too_few_rows", "3"),
    ],
)
def test_bad_rows_fail_the_job_with_their_place(
    client: Caller, root: Version, rows: str, code: str, said: str
) -> None:
    job = asked(client, rows)
    begin(job)
    shown = now(client, job)
    assert (shown["status"], shown["error"]["code"]) == ("failed", code)
    assert said in shown["error"]["message"]
    assert shown["error"]["param"] in ("training_file", "files")
    assert shown["finished_at"]
    assert Dataset.unscoped.filter(name__startswith="ft-").count() == 0
    assert client.asks(f"fine_tuning/jobs/{job['id']}/cancel").status_code == 409


def test_a_job_is_cancelled_before_and_while_it_is_at_work_and_fails_with_its_reason(
    client: Caller, root: Version
) -> None:
    early = asked(client)
    assert client.asks(f"fine_tuning/jobs/{early['id']}/cancel").json()["status"] == "cancelled"
    begin(early)
    assert now(client, early)["status"] == "cancelled"
    assert not Version.unscoped.filter(kind="hplm").exists()

    late = asked(client)
    begin(late)
    assert client.asks(f"fine_tuning/jobs/{late['id']}/cancel").json()["status"] == "cancelled"

    failing = asked(client)
    begin(failing)
    tuning = grove.jobs_in_order(version_of(failing))[0]
    job_fail(job_id=tuning.pk, worker=grove.claim(tuning), code="training_diverged", message="It diverged.")
    shown = now(client, failing)
    assert (shown["status"], shown["error"]["code"]) == ("failed", "training_diverged")
    events = client.get(f"/v1/fine_tuning/jobs/{failing['id']}/events").json()["data"]
    assert {"error", "warn", "info"} == {event["level"] for event in events}


def test_what_is_asked_wrongly_is_refused_at_once(
    client: Caller, stranger: Caller, root: Version, acme: Household
) -> None:
    grove.ready_hplm(root, "taken", acme)
    file, theirs = client.sends(jsonl(texts(60))).json()["id"], stranger.sends("x\n").json()["id"]
    batch = client.sends("x\n", purpose="batch").json()["id"]
    supervised = {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 1000}}}
    for status, code, param, body in [
        (404, "model_not_found", "model", {"model": "gpt-4"}),
        (404, "model_not_found", "model", {"model": "globex/secret"}),
        (404, "not_found", "training_file", {"training_file": theirs}),
        (404, "not_found", "validation_file", {"validation_file": theirs}),
        (400, "invalid_field", "training_file", {"training_file": batch}),
        (409, "conflict", "suffix", {"suffix": "taken"}),
        (400, "invalid_field", "suffix", {"suffix": "No Slug"}),
        (400, "invalid_field", "hyperparameters.n_epochs", {"method": supervised}),
        (400, "invalid_field", "hyperparameters.batch_size", {"hyperparameters": {"batch_size": 0.5}}),
        (400, "invalid_field", "method.type", {"method": {"type": "dpo"}}),
        (400, "invalid_field", "settings.nonsense", {"hmi": {"settings": {"nonsense": 1}}}),
        (400, "invalid_field", "integrations", {"integrations": [{"type": "wandb"}]}),
        (400, "invalid_field", "hmi.columns", {"hmi": {"columns": [1]}}),
        (400, "invalid_field", "hmi.columns", {"hmi": {"columns": {"text": 1}}}),
        (400, "missing_field", "training_file", {"training_file": ...}),
    ]:
        whole = {"model": "bert", "training_file": file, **body}
        refused = client.asks("fine_tuning/jobs", **{k: v for k, v in whole.items() if v is not ...})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["param"]) == (status, code, param), body
        assert refused.headers.get("x-should-retry") == ("false" if status == 409 else None)
    assert not FineTuning.unscoped.exists()


def test_a_worker_that_died_over_the_files_is_followed_by_another_but_not_for_ever(
    client: Caller, root: Version, acme: Household
) -> None:
    def left_behind(job: dict[str, Any]) -> Dataset:
        key = job["id"].removeprefix("ftjob-")
        return dataset_upload(
            tenant=acme.tenant,
            name=f"{FineTuning.unscoped.get(pk=key).name} {key[:12]}",
            task="classification",
            files={"train": ("rows.jsonl", stream(jsonl(texts(60))))},
            actor=None,
        )

    job = asked(client)
    stored = left_behind(job)
    begin(job)
    assert version_of(job).dataset == stored
    other = asked(client)
    FineTuning.unscoped.filter(pk=other["id"].removeprefix("ftjob-")).update(attempts=3)
    of_no_use = [left_behind(other)]
    begin(other)
    assert now(client, other)["error"]["code"] == "internal"
    cancelled = asked(client)
    of_no_use.append(left_behind(cancelled))
    client.asks(f"fine_tuning/jobs/{cancelled['id']}/cancel")
    assert not Dataset.unscoped.filter(pk__in=[dataset.pk for dataset in of_no_use]).exists()


def test_what_waits_for_its_files_to_be_read_has_its_jobs_reserved(
    client: Caller, root: Version, acme: Household
) -> None:
    Quota.unscoped.update_or_create(tenant=acme.tenant, defaults={"max_active_jobs": 3})
    job = asked(client)
    file = client.sends(jsonl(texts(60))).json()["id"]
    refused = client.asks("fine_tuning/jobs", model="bert", training_file=file)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
    begin(job)
    assert now(client, job)["status"] == "queued"

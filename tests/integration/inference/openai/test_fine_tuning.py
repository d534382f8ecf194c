"""Fine-tuning jobs: from a file to a version, as the OpenAI conventions tell it."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from tenants.datasets.models import Dataset
from tenants.datasets.services.datasets import dataset_upload
from tenants.usage.models import Quota
from tests.background import CancelledLease, FixedLease, LostLease, lose_the_last_worker, run_background_of
from tests.integration.inference.openai.conftest import Caller
from tests.integration.inference.openai.tuning import asked, begin, now, version_of
from tests.integration.tenants.content import stream
from tests.integration.versiontree import tree_factory
from tests.integration.versiontree.tree_factory import TenantFixture
from tests.unit.tenants.files import jsonl, texts
from versiontree.jobs.models import Job
from versiontree.jobs.services.lifecycle import job_event, job_fail
from versiontree.tree.models import FineTuning, Version


@pytest.fixture
def dev(client: Caller) -> str:
    """A file to validate by."""
    return str(client.sends(jsonl(texts(10, start=100))).json()["id"])


@pytest.fixture
def mood(client: Caller, root: Version, dev: str) -> dict[str, Any]:
    """A job with all that may be said."""
    hyperparameters = {"n_epochs": 3, "learning_rate_multiplier": 2.0}
    return asked(
        client,
        suffix="mood",
        validation_file=dev,
        seed=7,
        metadata={"team": "a"},
        method={"type": "supervised", "supervised": {"hyperparameters": hyperparameters}},
    )


@pytest.fixture
def begun(mood: dict[str, Any]) -> Version:
    """What it makes."""
    begin(mood)
    return version_of(mood)


@pytest.fixture
def done(mood: dict[str, Any], begun: Version) -> dict[str, Any]:
    """The job, after its work was done: two steps in a worker that was lost, and the rest in another."""
    tuning, evaluating = tree_factory.jobs_in_order(begun)
    tree_factory.claim(tuning)
    for step in (10, 20):
        data = {"stage": "fine-tune", "step": step, "total": 20, "loss": 1.0 / step}
        job_event(job_id=tuning.pk, kind="metrics", data=data)
    hand_back(tuning)
    tree_factory.do_job(tuning, labels=["bad", "good"])
    tree_factory.do_job(evaluating, metric="accuracy", value=0.75, rows=6)
    return mood


def hand_back(job: Job) -> None:
    """Its worker is gone."""
    Job.unscoped.filter(pk=job.pk).update(state="queued", worker="", lease_expires_at=None)


def test_a_job_that_is_asked_for_says_what_it_was_asked(mood: dict[str, Any], dev: str) -> None:
    assert (mood["object"], mood["status"], mood["fine_tuned_model"]) == (
        "fine_tuning.job",
        "validating_files",
        None,
    )
    assert (mood["seed"], mood["metadata"], mood["validation_file"]) == (7, {"team": "a"}, dev)
    assert mood["hyperparameters"] == {"n_epochs": 3, "batch_size": "auto", "learning_rate_multiplier": 2.0}


def test_its_files_become_one_dataset_of_a_quick_and_a_trained_version(
    client: Caller, mood: dict[str, Any], begun: Version
) -> None:
    assert now(client, mood)["status"] == "queued"
    quick = Version.unscoped.get(hplm=begun.hplm, number=1)
    assert (begun.name, begun.number, begun.is_quick, quick.is_quick) == ("mood", 2, False, True)
    assert quick.dataset == begun.dataset
    assert begun.config["settings"] == {"epochs": 3, "learning_rate": 4e-3, "seed": 7}
    assert {split.split: split.rows for split in begun.dataset.splits.all()}["dev"] == 10  # type: ignore[union-attr]


def test_hyperparameters_and_settings_below_a_decoder_are_those_of_decoders(
    client: Caller, tmp_path: Path
) -> None:
    tree_factory.ready_decoder(tmp_path)
    hyperparameters = {"n_epochs": 3, "batch_size": 8, "learning_rate_multiplier": 2.0}
    method = {"type": "supervised", "supervised": {"hyperparameters": hyperparameters}}
    hmi = {"settings": {"projections": "attention", "lora": 4}}
    made = asked(client, model="smol", method=method, hmi=hmi)
    stored = FineTuning.unscoped.get(pk=made["id"].removeprefix("ftjob-")).settings
    assert stored == {
        "epochs": 3, "batch_size": 8, "learning_rate": 2e-3, "projections": "attention", "lora": 4,
    }  # fmt: skip


def test_a_setting_of_the_other_kind_of_root_is_refused(
    client: Caller, root: Version, tmp_path: Path
) -> None:
    tree_factory.ready_decoder(tmp_path)
    file = client.sends(jsonl(texts(60))).json()["id"]
    for model, setting in (("smol", {"pooling": "cls"}), ("bert", {"projections": "all"})):
        answer = client.asks("fine_tuning/jobs", model=model, training_file=file, hmi={"settings": setting})
        assert answer.json()["error"]["param"] == f"hmi.settings.{next(iter(setting))}"


def test_it_is_at_work_until_its_last_job_is_done_and_says_when_that_may_be(
    client: Caller, mood: dict[str, Any], begun: Version
) -> None:
    tuning, evaluating = tree_factory.jobs_in_order(begun)
    assert now(client, mood)["hmi"] == {
        "jobs": [str(tuning.pk), str(evaluating.pk)],
        "version": begun.pk,
        "dataset": begun.dataset_id,
        "quick_model": "acme/mood:1",
    }
    tree_factory.do_jobs(Version.unscoped.get(hplm=begun.hplm, number=1))
    assert (now(client, mood)["status"], now(client, mood)["fine_tuned_model"]) == ("queued", None)
    tree_factory.claim(tuning)
    assert now(client, mood)["status"] == "running"
    hand_back(tuning)
    tree_factory.do_job(tuning, labels=["bad", "good"])
    assert now(client, mood)["status"] == "running"
    tree_factory.claim(evaluating)
    heard = timezone.now()
    Job.unscoped.filter(pk=evaluating.pk).update(heartbeat_at=heard, eta_seconds=50)
    Job.unscoped.filter(pk=tuning.pk).update(heartbeat_at=heard - timedelta(hours=1))
    assert now(client, mood)["estimated_finish"] == int(heard.timestamp() + 50)
    hand_back(evaluating)
    tree_factory.do_job(evaluating)
    shown = now(client, mood)
    assert (shown["status"], shown["fine_tuned_model"], shown["error"]) == ("succeeded", "acme/mood:2", None)
    assert shown["finished_at"] >= shown["created_at"]


def test_its_steps_and_its_measures_are_a_file_and_a_checkpoint(client: Caller, done: dict[str, Any]) -> None:
    (results,) = now(client, done)["result_files"]
    file = client.get(f"/v1/files/{results}").json()
    content = client.get(f"/v1/files/{results}/content").content
    assert (file["purpose"], file["bytes"]) == ("fine-tune-results", len(content))
    assert content.decode().splitlines() == [
        "step,loss,test_accuracy",
        "10,0.1,",
        "20,0.05,",
        "20,,0.75",
    ]
    (checkpoint,) = client.get(f"/v1/fine_tuning/jobs/{done['id']}/checkpoints").json()["data"]
    assert checkpoint["fine_tuned_model_checkpoint"] == "acme/mood:2"
    assert (checkpoint["step_number"], checkpoint["metrics"]) == (20, {"step": 20, "test_accuracy": 0.75})


def test_its_results_are_listed_among_the_files_until_they_are_deleted(
    client: Caller, stranger: Caller, done: dict[str, Any]
) -> None:
    (results,) = now(client, done)["result_files"]
    file = client.get(f"/v1/files/{results}").json()
    assert client.get("/v1/files", {"purpose": "fine-tune-results"}).json()["data"] == [file]
    listed = [each["id"] for each in client.get("/v1/files").json()["data"]]
    assert set(listed) == {results, done["training_file"], done["validation_file"]}
    first = client.get("/v1/files", {"limit": 2}).json()
    rest = client.get("/v1/files", {"limit": 2, "after": first["last_id"]}).json()
    assert [first["has_more"], rest["has_more"]] == [True, False]
    assert [file["id"] for file in first["data"] + rest["data"]] == listed
    assert stranger.get("/v1/files").json()["data"] == []
    assert stranger.delete(f"/v1/files/{results}").status_code == 404
    assert client.delete(f"/v1/files/{results}").json()["deleted"]
    assert client.get(f"/v1/files/{results}").status_code == 404
    assert client.get(f"/v1/files/{results}/content").status_code == 404
    assert now(client, done)["result_files"] == []
    assert results not in [each["id"] for each in client.get("/v1/files").json()["data"]]
    assert client.get(f"/v1/fine_tuning/jobs/{done['id']}/checkpoints").json()["data"]


def test_its_events_come_in_pages(client: Caller, done: dict[str, Any]) -> None:
    events = f"/v1/fine_tuning/jobs/{done['id']}/events"
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


def test_what_its_version_does_later_is_not_its_to_cancel(
    client: Caller, begun: Version, done: dict[str, Any]
) -> None:
    later = Job.unscoped.create(kind="evaluate", tenant=begun.tenant, version=begun, state="queued")
    again = client.asks(f"fine_tuning/jobs/{done['id']}/cancel")
    assert (again.status_code, again.headers["x-should-retry"]) == (409, "false")
    later.refresh_from_db()
    assert later.state == "queued"


def test_what_a_job_was_promised_nobody_takes_before_its_turn(
    client: Caller, root: Version, acme: TenantFixture
) -> None:
    def hplm(name: str) -> tuple[int, str]:
        body = {"name": name, "parent": root.pk, "dataset": acme.dataset.pk}
        answers = [client.post(f"/api/v1/{where}", body, format="json") for where in ("estimate", "models")]
        assert len({answer.status_code // 100 for answer in answers}) == 1
        return answers[1].status_code, answers[1].json().get("error", {}).get("details", {}).get("quota", "")

    quota = Quota.objects.for_tenant(acme.tenant)
    job = asked(client, suffix="mood")
    assert hplm("mood") == (409, "")
    quota.update(max_models=1)
    assert hplm("spam") == (429, "models")
    quota.update(max_models=50, max_active_jobs=3)
    assert hplm("spam") == (429, "active jobs")
    file = client.sends(jsonl(texts(60))).json()["id"]
    refused = client.asks("fine_tuning/jobs", model="bert", training_file=file)
    assert refused.status_code == 429
    quota.update(max_models=1, max_active_jobs=3)
    begin(job)
    assert now(client, job)["status"] == "queued"
    quota.update(max_models=2, max_active_jobs=6)
    assert hplm("spam") == (201, "")


def test_what_was_tuned_goes_on_to_a_further_version(client: Caller, root: Version) -> None:
    first = asked(client, suffix="mood")
    begin(first)
    tree_factory.do_jobs(version_of(first))
    second = asked(client, model=now(client, first)["fine_tuned_model"])
    begin(second)
    tree_factory.do_jobs(version_of(second))
    assert now(client, second)["fine_tuned_model"] == "acme/mood:3"
    assert now(client, second)["hmi"]["quick_model"] is None, "it is of the first one"
    assert now(client, first)["fine_tuned_model"] == "acme/mood:2"
    file = client.sends(jsonl(texts(60))).json()["id"]
    for body, code, param in [
        ({"model": "acme/mood:1"}, "invalid_field", "model"),
        ({"model": "acme/mood", "suffix": "other"}, "invalid_field", "suffix"),
    ]:
        refused = client.asks("fine_tuning/jobs", training_file=file, **body)
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["param"]) == (400, code, param)


def test_a_job_is_cancelled_before_and_while_it_is_at_work_and_fails_with_its_reason(
    client: Caller, root: Version
) -> None:
    early = asked(client)
    assert client.asks(f"fine_tuning/jobs/{early['id']}/cancel").json()["status"] == "cancelled"
    begin(early)
    assert now(client, early)["status"] == "cancelled"
    assert not Version.unscoped.filter(kind="model").exists()

    late = asked(client)
    begin(late)
    assert client.asks(f"fine_tuning/jobs/{late['id']}/cancel").json()["status"] == "cancelled"
    of_late = Job.unscoped.filter(version__hplm=version_of(late).hplm)
    assert set(of_late.values_list("kind", "state")) == {
        ("quick", "cancelled"), ("fine_tune", "cancelled"), ("evaluate", "cancelled"),
    }  # fmt: skip

    failing = asked(client)
    begin(failing)
    tuning = tree_factory.jobs_in_order(version_of(failing))[0]
    job_fail(
        job_id=tuning.pk, worker=tree_factory.claim(tuning), code="training_diverged", message="It diverged."
    )
    shown = now(client, failing)
    assert (shown["status"], shown["error"]["code"]) == ("failed", "training_diverged")
    events = client.get(f"/v1/fine_tuning/jobs/{failing['id']}/events").json()["data"]
    assert {"error", "warn", "info"} == {event["level"] for event in events}


def test_canceled_fine_tuning_keeps_a_quick_version_that_is_ready(client: Caller, root: Version) -> None:
    job = asked(client, suffix="mood")
    begin(job)
    tree_factory.do_jobs(Version.unscoped.get(hplm=version_of(job).hplm, number=1))
    shown = client.asks(f"fine_tuning/jobs/{job['id']}/cancel").json()
    assert (shown["status"], shown["fine_tuned_model"]) == ("cancelled", None)
    assert client.get("/v1/models/acme/mood").json()["hmi"]["version"] == 1


def test_fine_tuning_can_do_without_a_quick_version(client: Caller, root: Version) -> None:
    job = asked(client, suffix="mood", hmi={"quick": False})
    begin(job)
    assert (version_of(job).number, now(client, job)["hmi"]["quick_model"]) == (1, None)


def test_what_is_asked_wrongly_is_refused_at_once(
    client: Caller, stranger: Caller, root: Version, acme: TenantFixture
) -> None:
    tree_factory.ready_hplm(root, "taken", acme)
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
        (400, "invalid_field", "hmi.settings.nonsense", {"hmi": {"settings": {"nonsense": 1}}}),
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


def test_fine_tuning_fails_when_the_last_worker_of_its_background_job_is_lost(
    client: Caller, root: Version, acme: TenantFixture
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
    of_no_use = [left_behind(other)]
    lose_the_last_worker(UUID(other["id"].removeprefix("ftjob-")))
    assert now(client, other)["error"]["code"] == "job_crashed"
    cancelled = asked(client)
    of_no_use.append(left_behind(cancelled))
    client.asks(f"fine_tuning/jobs/{cancelled['id']}/cancel")
    assert not Dataset.unscoped.filter(pk__in=[dataset.pk for dataset in of_no_use]).exists()


@pytest.mark.parametrize(("lease", "status"), [(CancelledLease, "failed"), (LostLease, "validating_files")])
def test_it_stops_while_it_reads_its_files_when_its_background_job_is_cancelled_or_lost(
    client: Caller, root: Version, lease: type[FixedLease], status: str
) -> None:
    job = asked(client)
    run_background_of(UUID(job["id"].removeprefix("ftjob-")), lease)
    assert now(client, job)["status"] == status

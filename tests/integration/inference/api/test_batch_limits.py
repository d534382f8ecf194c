"""What ends the turn of a batch, or the batch, before its last line."""

from typing import Any

import pytest
from django.utils import timezone
from redis.exceptions import RedisError
from rest_framework.test import APIClient

from inference.batches import processor, runner
from inference.batches.models import Batch
from inference.batches.services import lifecycle
from inference.queueing.replies import InferClient
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.services import files
from tenants.usage.models import Quota, UsageDay
from tenants.usage.services.usage import usage_record
from tests.background import lose_the_last_worker, run_batch
from tests.integration.inference.api.conftest import Served
from tests.integration.inference.api.test_batches import TEXTS, api, fetched, lines_of, seen, send
from tests.processes import InferenceWorker

__all__ = ["api"]  # a fixture


def allow(served: Served, **limits: int) -> None:
    Quota.unscoped.update_or_create(tenant=served.world.tenant, defaults=limits)


def test_batch_without_answers_gives_way_to_others(
    api: APIClient, busy: InferenceWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, _ = send(api, lines_of(TEXTS)), send(api, lines_of(TEXTS))
    monkeypatch.setattr(processor, "STALL_TIMEOUT_S", 0.0)
    run_batch(batch["id"], time_slice_s=0)
    assert (seen(api, batch)["state"], seen(api, batch)["lines"]) == ("waiting", 0)
    busy.resume()
    monkeypatch.undo()
    run_batch(batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["succeeded"]) == ("completed", 4)


def test_batch_that_runs_alone_pauses_after_the_longest_slice(
    api: APIClient, worker: InferenceWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = send(api, lines_of(["the city"] * 300))
    monkeypatch.setattr(processor, "LONGEST_SLICE_S", 0.0)
    run_batch(batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["lines"]) == ("waiting", 256)
    monkeypatch.undo()
    run_batch(batch["id"], time_slice_s=0)
    assert (seen(api, batch)["state"], seen(api, batch)["succeeded"]) == ("completed", 300)


def test_batch_waits_when_the_daily_quota_is_used_up(
    api: APIClient, worker: InferenceWorker, served: Served
) -> None:
    batch, before = send(api, lines_of(TEXTS)), list(UsageDay.unscoped.order_by("pk").values())
    allow(served, max_requests_per_day=0)
    run_batch(batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["lines"]) == ("waiting", 0)
    assert list(UsageDay.unscoped.order_by("pk").values()) == before


def test_batch_of_a_tenant_suspended_meanwhile_waits(
    api: APIClient, worker: InferenceWorker, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, ours = send(api, lines_of(TEXTS)), Tenant.objects.filter(pk=served.world.tenant.pk)

    def suspend_meanwhile(**used: Any) -> None:
        usage_record(**used)
        ours.update(suspended_at=timezone.now())

    monkeypatch.setattr(processor, "usage_record", suspend_meanwhile)
    run_batch(batch["id"])
    assert Batch.unscoped.get(pk=batch["id"]).state == "waiting"
    monkeypatch.undo()
    ours.update(suspended_at=None)
    run_batch(batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["succeeded"]) == ("completed", 4)


def test_batch_whose_queue_is_lost_at_the_end_of_a_turn_waits(
    api: APIClient, worker: InferenceWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, _ = send(api, lines_of(["the city"] * 300)), send(api, lines_of(TEXTS))
    close = InferClient.close

    def lose(client: InferClient) -> None:
        close(client)
        raise RedisError("no server")

    monkeypatch.setattr(InferClient, "close", lose)
    run_batch(batch["id"], time_slice_s=0)
    assert seen(api, batch)["state"] == "waiting"
    run_batch(batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["succeeded"]) == ("completed", 300)


def test_results_are_stored_beyond_the_number_of_files(
    api: APIClient, worker: InferenceWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 1)
    batch = send(api, lines_of(TEXTS))
    run_batch(batch["id"])
    assert len(fetched(api, batch, "results")) == 4


def test_batch_fails_when_its_results_exceed_the_storage_overdraft(
    api: APIClient, worker: InferenceWorker, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, _ = send(api, lines_of(["the city"] * 300)), send(api, lines_of(TEXTS))
    allow(served, max_storage_bytes=0)
    run_batch(batch["id"], time_slice_s=0)
    assert seen(api, batch)["state"] == "waiting"
    monkeypatch.setattr(lifecycle, "STORAGE_OVERDRAFT_BYTES", 0)
    run_batch(batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["error"]["code"]) == ("failed", "quota_exceeded")
    assert len(fetched(api, batch, "results")) == seen(api, batch)["succeeded"] == 256


def test_batch_whose_worker_is_lost_too_often_fails_and_keeps_its_results(
    api: APIClient, worker: InferenceWorker
) -> None:
    batch, _ = send(api, lines_of(["the city"] * 300)), send(api, lines_of(TEXTS))
    run_batch(batch["id"], time_slice_s=0)
    lose_the_last_worker(batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["error"]["code"]) == ("failed", "job_crashed")
    lose_the_last_worker(batch["id"])  # that of the job that stores them
    run_batch(batch["id"])
    assert len(fetched(api, batch, "results")) == 256


@pytest.mark.parametrize(
    "error", [HmiError(ErrorCode.OUT_OF_DISK, "The disk is full."), RuntimeError("a fault")]
)
def test_results_that_cannot_be_stored_are_stored_later(
    api: APIClient, worker: InferenceWorker, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    batch = send(api, lines_of(TEXTS))

    def refuse(**_: object) -> None:
        raise error

    monkeypatch.setattr(runner, "file_create", refuse)
    run_batch(batch["id"])
    assert seen(api, batch)["state"] == "waiting"
    monkeypatch.undo()
    run_batch(batch["id"])
    assert len(fetched(api, batch, "results")) == 4

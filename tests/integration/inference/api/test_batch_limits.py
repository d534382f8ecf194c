"""What ends the turn of a batch, or the batch, before its last line."""

from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from inference.batches import processor
from inference.batches.models import Batch
from inference.batches.runner import batch_run
from inference.batches.services import lifecycle
from tenants.accounts.models import Tenant
from tenants.datasets.services import files
from tenants.usage.models import Quota, UsageDay
from tenants.usage.services.usage import usage_record
from tests.integration.inference.api.conftest import Served
from tests.integration.inference.api.test_batches import TEXTS, api, fetched, lines_of, seen, send
from tests.processes import InferenceWorker

__all__ = ["api"]  # a fixture


def allow(served: Served, **limits: int) -> None:
    Quota.unscoped.update_or_create(tenant=served.world.tenant, defaults=limits)


@pytest.mark.slow
def test_a_batch_that_nobody_answers_gives_way_to_others(
    api: APIClient, busy: InferenceWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, _ = send(api, lines_of(TEXTS)), send(api, lines_of(TEXTS))
    monkeypatch.setattr(processor, "STALL_TIMEOUT_S", 0.0)
    batch_run(batch_id=batch["id"], time_slice_s=0)
    assert (seen(api, batch)["state"], seen(api, batch)["lines"]) == ("waiting", 0)
    busy.resume()
    monkeypatch.undo()
    batch_run(batch_id=batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["succeeded"]) == ("completed", 4)


def test_a_batch_asks_nothing_beyond_the_quota_of_the_day(
    api: APIClient, worker: InferenceWorker, served: Served
) -> None:
    batch, before = send(api, lines_of(TEXTS)), list(UsageDay.unscoped.order_by("pk").values())
    allow(served, max_requests_per_day=0)
    batch_run(batch_id=batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["lines"]) == ("waiting", 0)
    assert list(UsageDay.unscoped.order_by("pk").values()) == before


def test_a_batch_is_not_completed_for_a_tenant_that_was_suspended_meanwhile(
    api: APIClient, worker: InferenceWorker, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, ours = send(api, lines_of(TEXTS)), Tenant.objects.filter(pk=served.world.tenant.pk)

    def suspend_meanwhile(**used: Any) -> None:
        usage_record(**used)
        ours.update(suspended_at=timezone.now())

    monkeypatch.setattr(processor, "usage_record", suspend_meanwhile)
    batch_run(batch_id=batch["id"])
    assert Batch.unscoped.get(pk=batch["id"]).state == "waiting"
    monkeypatch.undo()
    ours.update(suspended_at=None)
    batch_run(batch_id=batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["succeeded"]) == ("completed", 4)


def test_what_was_answered_is_kept_also_of_a_tenant_with_as_many_files_as_it_may_have(
    api: APIClient, worker: InferenceWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_FILES", 1)
    batch = send(api, lines_of(TEXTS))
    batch_run(batch_id=batch["id"])
    assert len(fetched(api, batch, "results")) == 4


def test_a_batch_fails_where_its_answers_go_too_far_beyond_the_storage(
    api: APIClient, worker: InferenceWorker, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, _ = send(api, lines_of(["the city"] * 300)), send(api, lines_of(TEXTS))
    allow(served, max_storage_bytes=0)
    batch_run(batch_id=batch["id"], time_slice_s=0)
    assert seen(api, batch)["state"] == "waiting"
    monkeypatch.setattr(lifecycle, "STORAGE_OVERDRAFT_BYTES", 0)
    batch_run(batch_id=batch["id"])
    assert (seen(api, batch)["state"], seen(api, batch)["error"]["code"]) == ("failed", "quota_exceeded")
    assert len(fetched(api, batch, "results")) == seen(api, batch)["succeeded"] == 256


def test_files_that_could_not_be_kept_are_asked_for_again_in_their_time(
    api: APIClient, worker: InferenceWorker
) -> None:
    batch, _ = send(api, lines_of(["the city"] * 300)), send(api, lines_of(TEXTS))
    batch_run(batch_id=batch["id"], time_slice_s=0)
    api.post(f"/api/v1/batches/{batch['id']}/cancel")
    rows, long_ago = Batch.unscoped.filter(pk=batch["id"]), timezone.now() - 2 * lifecycle.REDISPATCH_AFTER
    rows.update(dispatched_at=long_ago)
    lifecycle.batches_redispatch()
    dispatched_at = rows.get().dispatched_at
    assert dispatched_at is not None
    assert dispatched_at > long_ago + lifecycle.REDISPATCH_AFTER

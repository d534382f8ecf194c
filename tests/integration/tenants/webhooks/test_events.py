"""Which events are told, to whom and with what; and what people and programs do with webhooks."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from inference.batches.models import Batch
from inference.batches.services.batches import batch_cancel, batch_submit
from inference.batches.services.lifecycle import batch_complete, batch_expire, batch_fail
from tenants.accounts.services.tenant_deletion import tenant_rows_delete
from tenants.base.encryption import ENCRYPTED_PREFIX
from tenants.base.errors import ErrorCode, HmiError
from tenants.webhooks.models import EventKind, WebhookDelivery, WebhookEndpoint
from tenants.webhooks.services.delivery import webhooks_send
from tenants.webhooks.services.endpoints import MAX_ENDPOINTS, webhook_create, webhook_delete
from tenants.webhooks.services.events import event_create, subscribed_endpoints
from tests.e2e.world import World as TreeWorld
from tests.e2e.world import world_build
from tests.integration.sessions import by_itself, wait_for_a_waiting_session
from tests.integration.tenants.content import audit_of
from tests.integration.tenants.webhooks.receiver import Receiver
from tests.integration.versiontree.tree_factory import claim, do_job, hplm_of
from tests.integration.world import World, make_world
from versiontree.jobs.models import Job
from versiontree.jobs.services.control import job_cancel
from versiontree.jobs.services.lifecycle import job_confirm_cancel, job_fail
from versiontree.tree.services.aliases import alias_move, alias_remove
from versiontree.tree.services.evaluations import evaluation_request

ADDRESS = "/api/v1/tenants/acme/webhooks"
ALL = ["job.started", "job.succeeded", "job.failed", "job.cancelled", "alias.moved"]


@pytest.fixture
def tree(db: None, artifact_root: Path, upload_root: Path) -> TreeWorld:
    """A tenant with a ready model."""
    return world_build()


def hook(tree: TreeWorld, *kinds: str) -> WebhookEndpoint:
    url = "https://example.org/"
    return webhook_create(tenant=tree.tenant, url=url, kinds=kinds or ALL, actor=tree.owner)[0]


def told(endpoint: WebhookEndpoint) -> list[Any]:
    rows = WebhookDelivery.unscoped.filter(endpoint=endpoint).order_by("created_at", "kind")
    return [row.payload for row in rows]


def test_events_of_jobs_and_aliases_go_to_subscribed_endpoints(tree: TreeWorld) -> None:
    everything, failures, other = hook(tree), hook(tree, "job.failed"), hook(tree)
    WebhookEndpoint.unscoped.filter(pk=other.pk).update(tenant=tree.stranger.memberships.get().tenant)
    job = evaluation_request(version=tree.hplm, dataset=tree.dataset, tenant=tree.tenant, actor=tree.owner)
    worker = claim(job)
    job_fail(job_id=job.pk, worker=worker, code="job_crashed", message="No.")
    alias_move(hplm=hplm_of(tree.hplm), name="live", version=tree.hplm, actor=tree.owner)
    alias_move(hplm=hplm_of(tree.hplm), name="live", version=tree.hplm, actor=tree.owner)
    alias_remove(hplm=hplm_of(tree.hplm), name="live", actor=tree.owner)
    kinds = [one["type"] for one in told(everything)]
    assert kinds == ["job.started", "job.failed", "alias.moved", "alias.moved"]
    assert [one["type"] for one in told(failures)] == ["job.failed"]
    assert told(other) == []
    started, failed, moved, removed = (one["data"] for one in told(everything))
    assert started["state"] == "running"
    client = Client()
    client.force_login(tree.owner)
    answer = client.get(failed["links"]["job"]).json()
    assert (answer["id"], answer["state"]) == (failed["job"], failed["state"])
    assert failed["error_code"] == "job_crashed"
    assert [client.get(link).status_code for link in moved["links"].values()] == [200, 200]
    assert (moved["alias"], moved["version"]["number"], moved["previous"]) == ("live", 1, None)
    assert (removed["alias"], removed["version"], removed["previous"]["number"]) == ("live", None, 1)
    assert list(removed["links"]) == ["model"]
    ids = set(WebhookDelivery.unscoped.filter(kind="job.failed").values_list("event_id", flat=True))
    assert len(ids) == 1, "one event, to two endpoints"


def test_each_change_of_a_job_is_one_event(tree: TreeWorld) -> None:
    endpoint = hook(tree)

    def asked() -> Job:
        return evaluation_request(
            version=tree.hplm, dataset=tree.dataset, tenant=tree.tenant, actor=tree.owner
        )

    succeeds = asked()
    do_job(succeeds)
    waits = asked()
    job_cancel(job=waits, actor=tree.owner)
    runs = asked()
    worker = claim(runs)
    job_cancel(job=runs, actor=tree.owner)
    job_confirm_cancel(job_id=runs.pk, worker=worker)
    events = [(one["type"], one["data"]["job"], one["data"]["error_code"]) for one in told(endpoint)]
    assert events == [
        ("job.started", str(succeeds.pk), None),
        ("job.succeeded", str(succeeds.pk), None),
        ("job.cancelled", str(waits.pk), "job_cancelled"),
        ("job.started", str(runs.pk), None),
        ("job.cancelled", str(runs.pk), "job_cancelled"),
    ]
    assert all(one["data"]["state"] == state_told(one["type"]) for one in told(endpoint))


def state_told(kind: str) -> str:
    """The state of a job when an event of the kind is told."""
    return {"job.started": "running"}.get(kind, kind.removeprefix("job."))


def test_each_end_of_a_batch_is_one_event(tree: TreeWorld) -> None:
    ends = ["batch.completed", "batch.failed", "batch.cancelled", "batch.expired"]
    endpoint, mood = hook(tree, *ends), hplm_of(tree.hplm).name
    one, two, three, four = (batch_sent(tree, mood) for _ in ends)
    for _ in range(2):
        batch_complete(batch=one)
        batch_fail(batch=two, error=HmiError(ErrorCode.EMPTY_FILE, "Nothing is in it."))
    batch_cancel(batch=three, actor=tree.owner)
    Batch.unscoped.filter(pk=four.pk).update(expires_at=timezone.now())
    assert batch_expire(batch=four)
    events = told(endpoint)
    assert sorted(event["type"] for event in events) == sorted(ends)
    client = Client()
    client.force_login(tree.owner)
    for event in events:
        data = event["data"]
        answer = client.get(data["links"]["batch"]).json()
        assert (answer["id"], answer["state"]) == (data["batch"], event["type"].removeprefix("batch."))
        assert (data["model"], data["version"], data["tenant"]) == (mood, 1, "acme")
        assert data["error_code"] == ("empty_file" if event["type"] == "batch.failed" else None)


def batch_sent(tree: TreeWorld, model: str) -> Batch:
    line = io.BytesIO(b'"a text"')
    return batch_submit(tenant=tree.tenant, model=model, filename="in.jsonl", stream=line, actor=tree.owner)


def test_a_webhook_deleted_meanwhile_does_not_undo_the_end_of_a_batch(
    transactional_db: None, artifact_root: Path, upload_root: Path
) -> None:
    tree = world_build()
    endpoint, batch = hook(tree, "batch.cancelled"), batch_sent(tree, hplm_of(tree.hplm).name)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            batch_cancel(batch=batch, actor=tree.owner)
            deleting = pool.submit(by_itself, webhook_delete, endpoint=endpoint, actor=tree.owner)
            wait_for_a_waiting_session()
        deleting.result()
    batch.refresh_from_db()
    assert batch.state == "cancelled"
    assert not WebhookDelivery.unscoped.exists()
    assert not WebhookEndpoint.unscoped.exists()


def test_an_event_created_while_its_tenant_is_deleted_is_deleted_too(transactional_db: None) -> None:
    leaving = make_world().tenant
    webhook_create(tenant=leaving, url="https://example.org/", kinds=["job.failed"], actor=None)
    told_of = EventKind.JOB_FAILED
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            event_create(endpoints=subscribed_endpoints(leaving.pk, told_of), kind=told_of, data={})
            deleting = pool.submit(by_itself, tenant_rows_delete, tenant=leaving)
            wait_for_a_waiting_session()
        deleting.result()
    assert not WebhookDelivery.unscoped.exists()
    assert not WebhookEndpoint.unscoped.exists()


def test_a_rolled_back_change_creates_no_event(tree: TreeWorld) -> None:
    endpoint = hook(tree)
    with transaction.atomic():
        alias_move(hplm=hplm_of(tree.hplm), name="live", version=tree.hplm, actor=tree.owner)
        assert len(told(endpoint)) == 1
        transaction.set_rollback(True)
    assert told(endpoint) == []


def test_the_api_creates_tests_replays_rotates_and_deletes_a_webhook(
    world: World, receiver: Receiver
) -> None:
    _, key = world.key("manage")
    client = world.client(key=key)
    asked = {"url": receiver.url, "kinds": ["alias.moved", "job.failed"], "description": "CI"}
    made = client.post(ADDRESS, asked)
    assert (made.status_code, made.json()["kinds"]) == (201, ["job.failed", "alias.moved"])
    secret, one = made.json()["secret"], f"{ADDRESS}/{made.json()['id']}"
    assert secret.startswith("whsec_")
    endpoint = WebhookEndpoint.unscoped.get()
    assert endpoint.secret.startswith(ENCRYPTED_PREFIX)
    seen = json.dumps([client.get(ADDRESS).json(), client.get(one).json()])
    assert secret not in seen + str(list(audit_of(world.tenant).values()))
    delivery = client.post(f"{one}/test").json()
    webhooks_send(max_seconds=60)
    found = client.get(f"{one}/deliveries/{delivery['id']}").json()
    assert (found["state"], found["attempt_log"][0]["status"]) == ("delivered", 204)
    assert client.post(f"{one}/deliveries/{delivery['id']}/replay").status_code == 201
    assert [row["event_id"] for row in client.get(f"{one}/deliveries").json()["results"]] == [
        delivery["event_id"]
    ] * 2
    assert client.post(f"{one}/rotate", {"overlap_s": 60}).json()["secret"] not in {secret, ""}
    assert client.patch(one, {"enabled": False}).json()["enabled"] is False
    assert client.patch(one, {"kinds": ["webhook.test"]}).json()["error"]["param"] == "kinds"
    assert client.delete(one).status_code == 204
    assert client.get(one).status_code == 404
    assert set(audit_of(world.tenant).values_list("verb", flat=True)) >= {
        f"webhook.{verb}" for verb in ("create", "test", "replay", "rotate", "change", "delete")
    }


def test_a_private_address_and_too_many_webhooks_are_refused(world: World) -> None:
    client = world.client(world.developer)
    answer = client.post(ADDRESS, {"url": "https://127.0.0.1/", "kinds": ["job.failed"]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "url")
    for _ in range(MAX_ENDPOINTS):
        webhook_create(
            tenant=world.tenant, url="https://example.org/", kinds=["job.failed"], actor=world.owner
        )
    answer = client.post(ADDRESS, {"url": "https://example.org/", "kinds": ["job.failed"]})
    assert answer.json()["error"]["code"] == "quota_exceeded"

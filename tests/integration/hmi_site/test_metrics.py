"""`GET /metrics`: who may read it, and that its figures are those of the platform."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
from django.db import OperationalError, connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import DjangoAssertNumQueries, Settings

from hmi_site.metrics import platform
from inference.queueing import keys
from inference.queueing.consumer import RequestConsumer
from inference.queueing.heartbeat import Heartbeat
from inference.queueing.status import State, WorkerStatus
from inference.queueing.transport import RequestQueue
from tenants.accounts.models import User
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.usage import answers_record
from tests.integration.inference.queueing.requests import ROOT, a_reply, a_request, answered
from tests.integration.versiontree import tree_factory
from tests.integration.world import make_user
from versiontree.jobs.models import Job

pytestmark = pytest.mark.django_db
TOKEN = "a token that only Prometheus has"
Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def _token(settings: Settings) -> None:
    settings.HMI_METRICS_TOKEN = TOKEN


@pytest.fixture
def staff(db: None) -> User:
    return make_user("staff", staff=True)


class Scrape:
    """One answer, by sample: ``scrape("hmi_jobs", kind="compact", state="failed")``."""

    def __init__(self, client: Client) -> None:
        answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        assert answer["Content-Type"].startswith("text/plain; version=")
        assert "no-store" in answer["Cache-Control"]
        families = text_string_to_metric_families(answer.content.decode())
        samples = [sample for family in families for sample in family.samples]
        self.found: Found = {(s.name, frozenset(s.labels.items())): s.value for s in samples}

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.found.get((name, frozenset(labels.items())))


def announce(client: redis.Redis, name: str, state: State, *, last: float = 0.0, mismatches: int = 0) -> None:
    """A worker as it shows in Redis."""
    status = WorkerStatus(name, state, "cpu", "float32", last_batch_at=last, slot_mismatches=mismatches)
    Heartbeat(client, name, status.encode).beat()
    RequestConsumer(client, name).follow([ROOT])


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer "}, {"Authorization": TOKEN}]
    + [{"Authorization": f"Bearer {wrong}"} for wrong in (TOKEN[:-1], f"{TOKEN}x", "é\udce9")],
)
def test_a_stranger_finds_nothing(client: Client, headers: dict[str, str]) -> None:
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 404
    assert b"hmi_" not in answer.content


def test_without_a_token_none_opens(client: Client, settings: Settings) -> None:
    settings.HMI_METRICS_TOKEN = ""
    for given in ("Bearer ", "Bearer", ""):
        assert client.get("/metrics", headers={"Authorization": given}).status_code == 404


def test_staff_may_read_and_members_may_not(client: Client, redis_client: redis.Redis, staff: User) -> None:
    client.force_login(make_user("member"))
    assert client.get("/metrics").status_code == 404
    client.force_login(staff)
    assert client.get("/metrics").status_code == 200


def test_the_queue_is_told_as_it_fills_is_taken_and_is_answered(
    client: Client, redis_client: redis.Redis, settings: Settings
) -> None:
    def queue() -> tuple[float | None, float | None]:
        scrape = Scrape(client)
        return scrape("hmi_queue_depth_requests"), scrape("hmi_queue_outstanding_requests")

    settings.HMI_INFER_CAPACITY = 17
    assert queue() == (0, 0)
    door = RequestQueue(redis_client, capacity=17)
    for name in "abc":
        door.submit(a_request(name))
    assert queue() == (3, 3)
    announce(redis_client, "w", "ready")
    worker = RequestConsumer(redis_client, "w")
    worker.follow([ROOT])
    entries = worker.read(2, 0)
    assert queue() == (1, 3)
    answered(worker, entries[0], a_reply(entries[0].request))
    assert queue() == (1, 2)
    assert Scrape(client)("hmi_queue_capacity_requests") == 17


def test_workers_are_counted_by_state(client: Client, redis_client: redis.Redis) -> None:
    announce(redis_client, "a", "ready", mismatches=2)
    announce(redis_client, "b", "ready", mismatches=1)
    announce(redis_client, "c", "draining")
    scrape = Scrape(client)
    states = [scrape("hmi_workers", state=state) for state in ("ready", "draining", "loading")]
    assert states == [2, 1, 0]
    assert scrape("hmi_workers_slot_mismatches") == 3
    redis_client.delete(keys.worker("a"))
    assert Scrape(client)("hmi_workers", state="ready") == 1


def test_the_age_of_the_last_batch_is_that_of_the_last_worker_that_had_one(
    client: Client, redis_client: redis.Redis
) -> None:
    announce(redis_client, "fresh", "ready")
    assert Scrape(client)("hmi_last_batch_age_seconds") is None
    announce(redis_client, "old", "ready", last=time.time() - 900)
    announce(redis_client, "new", "ready", last=time.time() - 60)
    assert Scrape(client)("hmi_last_batch_age_seconds") == pytest.approx(60, abs=5)


def test_jobs_are_counted_by_kind_and_state(
    client: Client, redis_client: redis.Redis, artifact_root: Path, tmp_path: Path
) -> None:
    root = tree_factory.ready_root(tmp_path)
    tree_factory.new_hplm(root, "mood", tree_factory.create_tenant("acme"))
    scrape = Scrape(client)
    assert scrape("hmi_jobs", kind="convert", state="succeeded") == 1
    assert scrape("hmi_jobs", kind="fine_tune", state="queued") == 1
    assert scrape("hmi_jobs", kind="evaluate", state="waiting") == 1
    assert scrape("hmi_jobs", kind="fine_tune", state="failed") == 0
    assert (
        sum(value for (name, _), value in scrape.found.items() if name == "hmi_jobs") == Job.unscoped.count()
    )


def test_the_busiest_versions_tell_what_they_answered_today(
    client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = tree_factory.create_tenant("acme").tenant
    count = AnswerCount(10, 10, 8.0, 10, 3, whole=1, checked_texts=4, agreed_texts=3)
    answers_record(tenant=tenant, model_name="mood", version=2, count=count)
    answers_record(tenant=tenant, model_name="rare", version=1, count=AnswerCount(texts=1))
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    answers_record(tenant=tenant, model_name="past", version=1, count=count, day=yesterday)
    scrape, labels = Scrape(client), {"tenant": "acme", "model": "mood", "version": "2"}
    assert scrape("hmi_version_texts", **labels) == 10
    assert scrape("hmi_version_confidence", **labels) == pytest.approx(0.8)
    assert scrape("hmi_version_escalated_share", **labels) == pytest.approx(0.3)
    assert scrape("hmi_version_agreement", **labels) == pytest.approx(0.75)
    assert scrape("hmi_version_token_share", **labels, level="trigram") == 1
    rare = {"tenant": "acme", "model": "rare", "version": "1"}
    assert (scrape("hmi_version_texts", **rare), scrape("hmi_version_confidence", **rare)) == (1, None)
    assert scrape("hmi_version_texts", tenant="acme", model="past", version="1") is None
    monkeypatch.setattr(platform, "MAX_VERSIONS", 1)
    assert Scrape(client)("hmi_version_texts", **rare) is None


def test_requests_are_counted_and_timed_by_view_and_status(client: Client, redis_client: redis.Redis) -> None:
    before = Scrape(client)
    client.get("/health/live")
    client.get("/health/live")
    client.get("/nothing-here/one")
    client.get("/nothing-here/two")
    client.post("/api/v1/infer")
    after = Scrape(client)

    def grown(name: str, **labels: str) -> float:
        return (after(name, **labels) or 0) - (before(name, **labels) or 0)

    assert grown("hmi_http_requests_total", view="health-live", status="200") == 2
    assert grown("hmi_http_requests_total", view="unresolved", status="404") == 2
    assert grown("hmi_http_requests_total", view="inference_api:infer", status="401") == 1
    assert grown("hmi_http_requests_total", view="metrics", status="200") == 1
    assert grown("hmi_http_request_seconds_count", view="health-live") == 2
    assert grown("hmi_http_request_seconds_bucket", view="health-live", le="+Inf") == 2
    assert 0 < grown("hmi_http_request_seconds_sum", view="health-live") < 10


def test_what_is_refused_before_any_view_is_counted_too(client: Client, redis_client: redis.Redis) -> None:
    labels = {"view": "unresolved", "status": "422"}
    before = Scrape(client)("hmi_http_requests_total", **labels) or 0
    assert client.get("/health/live?x=%00").status_code == 422
    assert Scrape(client)("hmi_http_requests_total", **labels) == before + 1


def test_addresses_never_become_labels(client: Client, redis_client: redis.Redis) -> None:
    before = len(Scrape(client).found)
    for number in range(30):
        client.get(f"/nobody/{number}")
        client.generic(f"VERB{number}", "/nobody")
    assert len(Scrape(client).found) <= before + 25  # what was never met before: one view, two statuses


def test_without_redis_the_rest_is_told(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere.sock"
    scrape = Scrape(client)
    assert scrape("hmi_dependency_up", dependency="redis") == 0
    assert scrape("hmi_dependency_up", dependency="database") == 1
    assert scrape("hmi_jobs", kind="compact", state="failed") == 0
    assert scrape("hmi_queue_depth_requests") is None


def test_without_the_database_the_rest_is_told(client: Client, redis_client: redis.Redis) -> None:
    def down(*_: object) -> None:
        raise OperationalError("the database is away")

    with connection.execute_wrapper(down):
        scrape = Scrape(client)
    assert scrape("hmi_dependency_up", dependency="database") == 0
    assert scrape("hmi_dependency_up", dependency="redis") == 1
    assert scrape("hmi_jobs", kind="compact", state="failed") is None
    assert scrape("hmi_queue_depth_requests") == 0


def test_a_scrape_asks_the_database_for_jobs_answers_and_refused_requests(
    client: Client, redis_client: redis.Redis, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(3):
        Scrape(client)

"""The page of those who run the inference workers."""

import pytest
from django.test import Client
from pytest_django import Settings
from redis import Redis

from inference.api.client import close_gateway
from inference.queueing import keys
from inference.queueing.status import Recently, TracedSpan, WorkerStatus
from inference.queueing.transport import RequestConsumer
from tenants.models import User
from tests.e2e.world import World

SPANS = (
    TracedSpan("retrieval", 7, "retrieve", 0.0, 5.0),
    TracedSpan("adapters", 7, "layer 0 of", 1.0, 2.0),
    TracedSpan("compute", 7, "compute", 5.0, 15.0),
)


@pytest.fixture
def staff(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_superuser("boss"))
    return client


def beat(redis: Redis, **more: object) -> None:
    """A worker with a heartbeat."""
    status = WorkerStatus("w1", "ready", "cuda:0", "float16", roots=("minilm",), last_batch_at=1.7e9, **more)  # type: ignore[arg-type]
    redis.set(keys.worker("w1"), status.to_json())
    RequestConsumer(redis, "w1").open()


def test_staff_sees_every_worker_and_what_its_pipeline_does(staff: Client, redis: Redis) -> None:
    recently = Recently(120.5, 9, 11.0, 22.0, 33.0, SPANS)
    beat(redis, hplms=10_000, resident=12, resident_bytes=3_000_000, waiting=17, recently=recently)
    shown = staff.get("/serving/").content.decode()
    for said in (
        "w1",
        "minilm",
        "float16 on cuda:0",
        "10,000",
        "12 (2.9",
        "120.5",
        "11 ms",
        "22 ms",
        "33 ms",
    ):
        assert said in shown
    assert "retrieve batch 7: 5.0 ms" in shown
    assert 'width="75.000"' in shown  # the computing took 15 of 20 ms
    assert "Queue cannot" not in shown


def test_the_live_part_is_the_page_without_its_frame(staff: Client, redis: Redis) -> None:
    beat(redis)
    part = staff.get("/serving/", headers={"HX-Request": "true"}).content.decode()
    assert "w1" in part
    assert "<html" not in part
    assert 'hx-trigger="every 2s"' in part


def test_without_a_worker_the_page_says_so(staff: Client, redis: Redis) -> None:
    assert "No inference worker is running" in staff.get("/serving/").content.decode()


def test_without_the_queue_the_page_says_so(staff: Client, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/valkey.sock"
    close_gateway()
    shown = staff.get("/serving/").content.decode()
    close_gateway()
    assert "The queue cannot be reached" in shown


def test_for_members_and_strangers_there_is_no_such_page(client: Client, world: World) -> None:
    assert client.get("/serving/").status_code == 302
    client.force_login(world.owner)
    assert client.get("/serving/").status_code == 404

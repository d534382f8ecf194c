"""The site as a whole: health, addresses nobody knows, documentation that stays on this machine."""

import gzip
import json
import shutil
import zlib
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from hmi_site import health
from hmi_site.dashboard.alerts import low_disk_alerts
from hmi_site.launcher.supervisor import RESTARTS_FILE, RestartRecord
from hmi_site.metrics.platform import PlatformCollector
from inference.queueing import keys
from inference.queueing.heartbeat import Heartbeat
from inference.queueing.status import WorkerStatus
from tenants.base.tasks import watch_disks

pytestmark = pytest.mark.django_db
DiskUsage = namedtuple("DiskUsage", "total used free")


@pytest.fixture(autouse=True)
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found for another test is not told in this one, nor the other way round."""
    monkeypatch.setattr(health, "_readiness", health.Readiness())


def announce_worker(client: redis.Redis, *, state: str, name: str = "w", **more: Any) -> None:
    """What a worker leaves in Redis."""
    status = WorkerStatus(name=name, state=state, device="cpu", dtype="float32", **more)  # type: ignore[arg-type]
    Heartbeat(client, name, status.encode).beat()


def test_the_site_is_live_without_anything_behind_it(client: Client) -> None:
    answer = client.get("/health/live")
    assert (answer.status_code, answer.json()) == (200, {"status": "live"})


def test_the_site_is_not_ready_without_an_inference_worker(client: Client, redis_client: redis.Redis) -> None:
    answer = client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json() == {
        "status": "not ready",
        "database": "ok",
        "redis": "ok",
        "inference_worker": "missing",
        "disk": "ok",
    }


def test_a_disk_that_is_nearly_full_is_told_and_the_site_goes_on(
    client: Client,
    redis_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    announce_worker(redis_client, state="ready")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(total=1000, used=951, free=49))
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()["disk"]) == (200, "nearly full")
    watch_disks()
    assert f"The disk of {django_settings.HMI_HOME}" in caplog.text
    assert "nearly full" in caplog.text
    assert any("nearly full" in alert.text for alert in low_disk_alerts())
    scraped = {
        sample.name: sample.value for metric in PlatformCollector().collect() for sample in metric.samples
    }
    assert (scraped["hmi_disk_free_bytes"], scraped["hmi_disk_size_bytes"]) == (49, 1000)


@pytest.mark.parametrize(("state", "status"), [("loading", 503), ("ready", 200), ("draining", 503)])
def test_the_site_is_ready_when_a_worker_is(
    client: Client, redis_client: redis.Redis, state: str, status: int
) -> None:
    announce_worker(redis_client, state=state)
    assert client.get("/health/ready").status_code == status


@pytest.mark.parametrize(
    ("state", "served", "missing", "answer"),
    [
        ("loading", {}, {"a1": "mini", "b1": "maxi"}, (503, "not ready", "missing: maxi, mini")),
        ("ready", {"a1": "mini"}, {"a2": "mini"}, (200, "degraded", "missing: mini")),
        ("ready", {"a1": "mini"}, {"c1": "elsewhere"}, (200, "ready", None)),
    ],
)
def test_roots_that_no_worker_could_load_are_named(
    client: Client,
    redis_client: redis.Redis,
    state: str,
    served: dict[str, str],
    missing: dict[str, str],
    answer: tuple[int, str, str | None],
) -> None:
    announce_worker(
        redis_client,
        state=state,
        roots=[*served.values()],
        root_digests=[*served],
        missing_roots=[*missing.values()],
        missing_root_digests=[*missing],
    )
    announce_worker(redis_client, state="draining", name="leaving", root_digests=["b1"])
    if answer[0] == 200:
        announce_worker(redis_client, state="ready", name="other", root_digests=["c1"])
    told = client.get("/health/ready")
    assert (told.status_code, told.json()["status"], told.json().get("roots")) == answer
    started = {worker.name for worker in health.started_workers()}
    assert started == ({"w", "other"} if answer[0] == 200 else {"w"}), "a restart would not help it"


def test_a_process_that_ends_again_and_again_is_named(
    client: Client, redis_client: redis.Redis, settings: Settings, tmp_path: Path
) -> None:
    settings.HMI_RUNTIME_DIR = tmp_path
    record = RestartRecord(tmp_path / RESTARTS_FILE)
    record.add("training worker", "ended with exit code 1", is_down=True)
    record.add("inference worker", "was ended by SIGKILL", is_down=True)
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()["inference_worker"]) == (503, "down")
    announce_worker(redis_client, state="ready")
    health._readiness = health.Readiness()
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "status": "degraded",
            "database": "ok",
            "redis": "ok",
            "inference_worker": "ok",
            "disk": "ok",
            "training_worker": "down",
        },
    )


def test_whoever_asks_again_within_a_second_is_told_what_was_found_before(
    client: Client,
    redis_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    monkeypatch.setattr(health, "CACHE_S", 1000.0)  # a busy machine may take longer than one
    announce_worker(redis_client, state="ready")
    assert client.get("/health/ready").status_code == 200
    redis_client.delete(keys.worker("w"))
    with django_assert_num_queries(0):
        for address in ("/health/ready", "/v2/health/ready"):
            assert client.get(address).status_code == 200
    monkeypatch.setattr(health, "CACHE_S", 0.0)
    for address in ("/health/ready", "/v2/health/ready"):
        assert client.get(address).status_code == 503


def test_the_site_is_not_ready_without_redis(client: Client, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere.sock"
    assert client.get("/health/ready").json()["redis"] == "failed"


def test_the_documentation_asks_nothing_of_other_hosts(client: Client) -> None:
    schema = client.get("/api/schema/", headers={"Accept": "application/json"})
    assert schema.status_code == 200
    assert "/api/v1/infer" in json.dumps(schema.json()["paths"])
    page = client.get("/api/docs/").content.decode()
    assert "//cdn" not in page
    assert "https://" not in page


@pytest.mark.parametrize("accept", ["application/json", "application/yaml"])
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_the_schema_is_made_and_compressed_once_and_not_sent_to_whoever_has_it(
    client: Client, monkeypatch: pytest.MonkeyPatch, accept: str, encoding: str
) -> None:
    headers = {"Accept": accept, "Accept-Encoding": encoding}
    first = client.get("/api/schema/", headers=headers)
    content = gzip.decompress(first.content) if encoding == "gzip" else first.content
    assert b"/api/v1/infer" in content
    assert {"Accept", "Accept-Encoding"} <= set(first["Vary"].split(", "))
    assert first["Cache-Control"] == "public, max-age=300"

    monkeypatch.setattr(gzip, "GzipFile", None)  # whatever compresses now fails
    monkeypatch.setattr(zlib, "compressobj", None)
    again = client.get("/api/schema/", headers=headers)
    assert (again.content, again["ETag"]) == (first.content, first["ETag"])
    known = client.get("/api/schema/", headers=headers | {"If-None-Match": first["ETag"]})
    assert (known.status_code, known.content, known["ETag"]) == (304, b"", first["ETag"])


def test_pages_carry_the_headers_browsers_look_for(client: Client) -> None:
    answer = client.get("/login/")
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"

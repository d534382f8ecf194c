"""Days on which a version leaves the band of its dev split: on its page, on the dashboard, and by webhook."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from redis import Redis

from inference.api.drift import drift_watch
from tenants.usage.models import AnswerDay
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.usage import answers_record
from tenants.webhooks.models import WebhookDelivery
from tenants.webhooks.services.endpoints import webhook_create
from tests.e2e.measures import evaluation
from tests.e2e.tiny_files import cascade_of, with_cascade
from tests.e2e.world import World, versions_finish
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import hplm_update

ON_DEV = cascade_of("classes")
CONFIDENCE = sum(each.rows * each.confidence for each in ON_DEV.table.bins) / ON_DEV.rows
ESCALATED = ON_DEV.candidate().escalated


@pytest.fixture
def version(world: World) -> Version:
    """Version 2 of triage, whose cascade was profiled."""
    assert world.hplm.hplm is not None
    made = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=world.owner)
    versions_finish(made, {"evaluate": evaluation(right=45)}, files=with_cascade)
    Version.unscoped.filter(pk=made.pk).update(ready_at=timezone.now() - timedelta(days=9))
    return made


def today() -> date:
    return datetime.now(UTC).date()


def serve(
    world: World,
    *,
    confidence: float = CONFIDENCE,
    escalated: float = ESCALATED,
    texts: int = 500,
    **more: Any,
) -> None:
    """Version 2 answers so many texts."""
    count = AnswerCount(texts, texts, texts * confidence, texts, round(texts * escalated), whole=9, part=1)
    answers_record(**{"tenant": world.tenant, "model_name": "triage", "version": 2, "count": count, **more})


def test_a_day_like_dev_is_no_drift(world: World, version: Version) -> None:
    serve(world, confidence=CONFIDENCE - 0.09, escalated=ESCALATED + 0.09)
    assert drift_watch() == 0
    assert AnswerDay.unscoped.get().drift == ""


def test_a_day_that_leaves_its_band_is_recorded_and_told_once(world: World, version: Version) -> None:
    kinds = ["version.drifted"]
    webhook_create(tenant=world.tenant, url="https://example.org/", kinds=kinds, actor=world.owner)
    serve(world, escalated=0.6)
    assert drift_watch() == 1
    assert AnswerDay.unscoped.get().drift == "escalated 60.0% (24.0% on dev)"
    serve(world, escalated=0.9)
    assert drift_watch() == 0
    payload = WebhookDelivery.unscoped.get().payload
    assert payload["type"] == "version.drifted"
    data = payload["data"]
    assert (data["version"]["name"], data["version"]["number"]) == ("triage", 2)
    assert data["day"] == today().isoformat()
    assert data["figures"] == {"escalated": {"served": 0.6, "dev": 0.24}}
    assert data["links"]["version"].endswith(f"/versions/{version.pk}")
    serve(world, confidence=0.4, day=today() - timedelta(days=1))
    assert drift_watch() == 1, "another day is told again"
    assert WebhookDelivery.unscoped.count() == 2


def test_few_texts_and_days_long_gone_are_no_drift(
    world: World, version: Version, settings: Settings
) -> None:
    serve(world, confidence=0.3, texts=199)
    serve(world, confidence=0.3, day=today() - timedelta(days=2))
    assert drift_watch() == 0
    settings.HMI_DRIFT_MIN_TEXTS = 199
    assert drift_watch() == 1


def test_the_tolerance_is_a_setting(world: World, version: Version, settings: Settings) -> None:
    serve(world, confidence=CONFIDENCE - 0.15)
    settings.HMI_DRIFT_TOLERANCE = 0.2
    assert drift_watch() == 0
    settings.HMI_DRIFT_TOLERANCE = 0.1
    assert drift_watch() == 1


def test_a_version_without_a_profile_has_no_band(world: World) -> None:
    serve(world, confidence=0.3, version=1)
    assert drift_watch() == 0


def test_the_page_of_the_version_and_the_dashboard_warn(
    owner: Client, world: World, version: Version, redis_client: Redis
) -> None:
    serve(world, confidence=0.41)
    owner.force_login(world.admin)
    assert " drifted on " not in owner.get("/admin/").content.decode()
    drift_watch()
    said = f"confidence 41.0% ({CONFIDENCE:.1%} on dev)"
    shown = owner.get("/admin/").content.decode()
    assert f"acme/triage:2 drifted on {today().day} {today():%b} ({said})." in shown
    owner.force_login(world.owner)
    page = owner.get("/t/acme/models/triage/versions/2/").content.decode()
    assert f"{today().day} {today():%b %Y}: {said}" in page

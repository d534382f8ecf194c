"""The request log: how it is written, read and deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from tenants.accounts.models import Tenant
from tenants.accounts.services.tenants import tenant_set_request_texts
from tenants.audit.models import AuditEvent
from tenants.base.tasks import delete_expired
from tenants.usage.models import LoggedRequest, OmittedRequests
from tenants.usage.request_selectors import omitted_requests
from tenants.usage.services.request_log import RequestEntry
from tenants.usage.services.usage import request_record
from tenants.usage.services.usage_buffer import UsageBuffer
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_platform_scope")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def entry(tenant: Tenant, name: str = "r", **fields: Any) -> RequestEntry:
    return RequestEntry(tenant.pk, name, **{"api": "infer", "status": 200, "model_name": "mood", **fields})


def names(tenant: Tenant) -> list[str]:
    """The ids of the tenant's entries, newest first."""
    return list(LoggedRequest.objects.for_tenant(tenant).values_list("request_id", flat=True))


@pytest.fixture
def logged(world: World) -> None:
    """Five requests of acme's, an hour apart, and one of globex's."""
    given: list[dict[str, Any]] = [
        {"name": "first", "key_prefix": "12345678", "version": 2, "tokens": 7},
        {"name": "second", "status": 429, "error_code": "rate_limited"},
        {"name": "second-2", "status": 404, "error_code": "not_found", "model_name": "moot"},
        {"name": "third", "key_prefix": "12345678", "status": 504, "error_code": "deadline_exceeded"},
        {"name": "fourth", "model_name": "spam"},
    ]
    for hours, fields in enumerate(given):
        request_record(entry(world.tenant, at=NOON + timedelta(hours=hours), **fields))
    request_record(entry(world.other, "theirs"))


def test_an_entry_is_read_as_it_was_written(world: World) -> None:
    details = {"levels": {"table": 2}, "timings_ms": {"total": 3.5}}
    given = entry(
        world.tenant,
        version=3,
        key_prefix="12345678",
        status=504,
        error_code="deadline_exceeded",
        latency_ms=12.5,
        level="cascade",
        inputs=2,
        tokens=9,
        generated_tokens=4,
        details=details,
        at=NOON,
    )
    request_record(given)
    row = LoggedRequest.unscoped.get()
    assert {name: getattr(row, name) for name in RequestEntry.__slots__} == {
        name: getattr(given, name) for name in RequestEntry.__slots__
    }


def test_requests_beyond_the_rate_of_their_tenant_are_counted_by_the_hour(
    world: World, settings: Settings
) -> None:
    settings.HMI_REQUEST_LOG_RATE = 2
    buffer = UsageBuffer()
    codes = ("", "rate_limited", "rate_limited", "not_found", "internal", "")
    for minutes, code in zip((1, 2, 3, 4, 5, 70), codes, strict=True):
        buffer.add_request(
            entry(world.tenant, f"m{minutes}", error_code=code, at=NOON + timedelta(minutes=minutes))
        )
    buffer.add_request(entry(world.other, "theirs"))
    for _ in range(2):
        buffer.flush()
    buffer.add_request(entry(world.tenant, "next interval"))
    buffer.flush()
    assert names(world.tenant) == ["next interval", "m2", "m1"]
    assert names(world.other) == ["theirs"]
    assert omitted_requests(world.tenant) == (4, 2, 1)
    assert omitted_requests(world.tenant, since=NOON + timedelta(minutes=65)) == (1, 0, 0)
    assert omitted_requests(world.tenant, until=NOON + timedelta(minutes=60)) == (3, 2, 1)
    assert omitted_requests(world.other) == (0, 0, 0)


def test_a_log_of_0_days_has_no_entries(
    world: World, settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    settings.HMI_REQUEST_LOG_DAYS = 0
    with django_assert_num_queries(0):
        request_record(entry(world.tenant))


def test_a_tenant_that_is_being_deleted_gets_no_entries(world: World) -> None:
    now = timezone.now()
    Tenant.objects.filter(pk=world.tenant.pk).update(suspended_at=now, deletion_requested_at=now)
    request_record(entry(world.tenant))
    assert not LoggedRequest.unscoped.exists()


def test_entries_are_deleted_after_their_days(world: World, settings: Settings) -> None:
    settings.HMI_REQUEST_LOG_DAYS = 3
    now = timezone.now()
    for days in (2, 4):
        at = now - timedelta(days=days)
        request_record(entry(world.tenant, f"{days} days", at=at))
        OmittedRequests.unscoped.create(tenant=world.tenant, hour=at, requests=days)
    delete_expired()
    assert names(world.tenant) == ["2 days"]
    assert omitted_requests(world.tenant) == (2, 0, 0)


def test_texts_are_kept_only_while_the_tenant_keeps_texts(world: World) -> None:
    def texts() -> list[Any]:
        rows = LoggedRequest.objects.for_tenant(world.tenant)
        return list(rows.order_by("pk").values_list("texts", flat=True))

    request_record(entry(world.tenant, texts=["secret"]))
    assert tenant_set_request_texts(tenant=world.tenant, keeps=True, actor=world.owner)
    assert not tenant_set_request_texts(tenant=world.tenant, keeps=True, actor=world.owner)
    request_record(entry(world.tenant, texts=["one", "zwei \N{SNOWMAN}"]))
    request_record(entry(world.tenant))
    assert texts() == [None, ["one", "zwei \N{SNOWMAN}"], None]
    assert tenant_set_request_texts(tenant=world.tenant, keeps=False, actor=world.owner)
    assert texts() == [None, None, None]
    changes = AuditEvent.unscoped.filter(verb="tenant.set_request_texts").order_by("pk")
    assert [event.detail["keeps_request_texts"]["to"] for event in changes] == [True, False]


@pytest.mark.usefixtures("logged")
def test_the_api_lists_requests_by_filters(world: World) -> None:
    for query, found in (
        ("", ["fourth", "third", "second-2", "second", "first"]),
        ("status=failed", ["third"]),
        ("status=refused", ["second-2", "second"]),
        ("status=answered", ["fourth", "first"]),
        ("code=not_found", ["second-2"]),
        ("model=mood", ["third", "second", "first"]),
        ("model=mood&status=refused", ["second"]),
        ("key=12345678", ["third", "first"]),
        ("key=", ["fourth", "second-2", "second"]),
        ("request_id=second", ["second-2", "second"]),
        ("request_id=theirs", []),
        ("since=2026-01-31T13:00Z&until=2026-01-31T15:00Z", ["second-2", "second"]),
    ):
        _, key = world.key("manage")
        answer = world.client(key=key).get(f"/api/v1/requests?{query}")
        assert answer.status_code == 200, answer.content
        assert [row["request_id"] for row in answer.json()["results"]] == found

"""Counting infer requests, and refusing what the quota does not allow."""

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from tenants.errors import ErrorCode
from tenants.models import Quota, UsageDay
from tenants.selectors import quota_of, requests_today, usage_of
from tenants.services.quotas import (
    quota_check_active_jobs,
    quota_check_domains,
    quota_check_hplms,
    quota_check_requests,
    quota_check_storage,
    quota_lock,
)
from tenants.services.usage import usage_record
from tests.integration.world import World, make_world
from tests.unit.tenants.files import refused


def counted(world: World) -> list[dict[str, Any]]:
    fields = ("hplm_name", "requests", "inputs", "tokens", "failed")
    return list(UsageDay.objects.for_tenant(world.tenant).order_by("day", "hplm_name").values(*fields))


def test_requests_add_up_per_hplm_and_day(world: World) -> None:
    for failed in (False, False, True):
        usage_record(tenant=world.tenant, hplm_name="mood", inputs=2, tokens=30, failed=failed)
    usage_record(tenant=world.tenant, hplm_name="spam", inputs=1, tokens=5)
    usage_record(tenant=world.tenant, hplm_name="mood", inputs=1, tokens=1, day=date(2026, 1, 1))
    usage_record(tenant=world.other, hplm_name="mood", inputs=9, tokens=9)
    assert counted(world) == [
        {"hplm_name": "mood", "requests": 1, "inputs": 1, "tokens": 1, "failed": 0},
        {"hplm_name": "mood", "requests": 3, "inputs": 6, "tokens": 90, "failed": 1},
        {"hplm_name": "spam", "requests": 1, "inputs": 1, "tokens": 5, "failed": 0},
    ]
    assert requests_today(world.tenant) == 4
    today = datetime.now(UTC).date()
    assert {row.day for row in usage_of(world.tenant, today - timedelta(days=1))} == {today}


def test_no_request_is_lost_or_counted_twice_under_threads(transactional_db: None) -> None:
    world = make_world()
    barrier = threading.Barrier(8)

    def many() -> None:
        barrier.wait()
        for number in range(25):
            usage_record(tenant=world.tenant, hplm_name=f"h{number % 3}", inputs=2, tokens=3, failed=False)
        connection.close()

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = counted(world)
    assert [row["hplm_name"] for row in rows] == ["h0", "h1", "h2"]
    assert [sum(row[name] for row in rows) for name in ("requests", "inputs", "tokens")] == [200, 400, 600]


CHECKS: list[tuple[str, Callable[..., None]]] = [
    ("max_domains", quota_check_domains),
    ("max_hplms", quota_check_hplms),
    ("max_active_jobs", quota_check_active_jobs),
]


@pytest.mark.parametrize(("limit", "check"), CHECKS)
def test_one_more_is_allowed_up_to_the_limit(world: World, limit: str, check: Callable[..., None]) -> None:
    Quota.unscoped.filter(tenant=world.tenant).update(**{limit: 4})
    check(tenant=world.tenant, having=3)
    error = refused(ErrorCode.QUOTA_EXCEEDED, lambda: check(tenant=world.tenant, having=4))
    assert error.status == 429
    assert error.details is not None
    assert (error.details["limit"], error.details["used"], error.details["asked"]) == (4, 4, 1)
    check(tenant=world.other, having=2)


def test_storage_may_be_filled_to_the_last_byte(world: World) -> None:
    Quota.unscoped.filter(tenant=world.tenant).update(max_storage_bytes=10)
    quota_check_storage(tenant=world.tenant, adding_bytes=10)
    refused(ErrorCode.QUOTA_EXCEEDED, lambda: quota_check_storage(tenant=world.tenant, adding_bytes=11))


def test_requests_of_today_count_and_the_error_says_when_to_come_back(world: World) -> None:
    Quota.unscoped.filter(tenant=world.tenant).update(max_requests_per_day=2)
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    for day in (yesterday, yesterday, yesterday, None):
        usage_record(tenant=world.tenant, hplm_name="mood", inputs=1, tokens=1, day=day)
    quota_check_requests(tenant=world.tenant)
    usage_record(tenant=world.tenant, hplm_name="spam", inputs=1, tokens=1)
    error = refused(ErrorCode.QUOTA_EXCEEDED, lambda: quota_check_requests(tenant=world.tenant))
    assert error.retry_after is not None
    assert 1 <= error.retry_after <= 24 * 3600


def test_a_tenant_without_a_quota_row_has_the_defaults(world: World) -> None:
    Quota.unscoped.filter(tenant=world.tenant).delete()
    assert quota_of(world.tenant).max_domains == 3
    assert quota_lock(tenant=world.tenant).max_hplms == 50

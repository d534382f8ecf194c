"""Counting infer requests, and refusing what the quota does not allow."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, get_args

import psycopg
import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from hmi_site.server_urls import EMBEDDED_ADMIN
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import platform_scope
from tenants.base.ttl_cache import process_cache
from tenants.usage.models import AnswerDay, LoggedRequest, Quota, UsageDay, UsageSum
from tenants.usage.selectors import quota_of, requests_today, usage_of
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.quotas import (
    Counted,
    quota_check,
    quota_check_requests,
    quota_check_storage,
    quota_lock,
)
from tenants.usage.services.request_log import RequestEntry
from tenants.usage.services.usage import usage_flush, usage_record
from tenants.usage.services.usage_buffer import UsageBuffer, UsageCount
from tests.integration.world import World
from tests.processes import wait_until
from tests.unit.tenants.files import refused

pytestmark = pytest.mark.usefixtures("in_acme_scope")


def counted(world: World) -> list[dict[str, Any]]:
    fields = ("model_name", "requests", "inputs", "tokens", "generated_tokens", "failed")
    return list(UsageDay.objects.for_tenant(world.tenant).order_by("day", "model_name").values(*fields))


@platform_scope()
def test_requests_add_up_by_model_and_day(world: World) -> None:
    for failed in (False, False, True):
        usage_record(
            tenant=world.tenant, model_name="mood", inputs=2, tokens=30, generated_tokens=20, failed=failed
        )
    usage_record(tenant=world.tenant, model_name="spam", inputs=1, tokens=5)
    usage_record(tenant=world.tenant, model_name="mood", inputs=1, tokens=1, day=date(2026, 1, 1))
    usage_record(tenant=world.other, model_name="mood", inputs=9, tokens=9)
    assert counted(world) == [
        {"model_name": "mood", "requests": 1, "inputs": 1, "tokens": 1, "generated_tokens": 0, "failed": 0},
        {"model_name": "mood", "requests": 3, "inputs": 6, "tokens": 90, "generated_tokens": 60, "failed": 1},
        {"model_name": "spam", "requests": 1, "inputs": 1, "tokens": 5, "generated_tokens": 0, "failed": 0},
    ]
    assert requests_today(world.tenant) == 4
    today = datetime.now(UTC).date()
    assert {row.day for row in usage_of(world.tenant, today - timedelta(days=1))} == {today}


@pytest.fixture
def buffered(settings: Settings) -> Iterator[Settings]:
    """Usage is written, and quotas are read, once a minute; what a test leaves is written at its end."""
    settings.HMI_USAGE_INTERVAL_S = settings.HMI_KEY_CACHE_S = 60.0
    process_cache().clear()
    yield settings
    usage_flush()
    process_cache().clear()


def use(world: World, times: int) -> None:
    for _ in range(times):
        usage_record(tenant=world.tenant, model_name="mood", inputs=2, tokens=30)


@platform_scope()
def test_usage_of_an_interval_costs_the_same_queries_whatever_its_size(
    world: World, buffered: Settings
) -> None:
    def queries(times: int) -> int:
        with CaptureQueriesContext(connection) as captured:
            use(world, times)
            usage_record(tenant=world.other, model_name="spam", inputs=1, tokens=5, failed=True)
            assert len(captured) == 0
            usage_flush()
        return len(captured)

    assert queries(100) == queries(1)
    [row] = counted(world)
    assert (row["requests"], row["inputs"], row["tokens"]) == (101, 202, 3030)
    with CaptureQueriesContext(connection) as captured:
        usage_flush()
    assert len(captured) == 0


def test_a_scheduled_flush_writes_in_a_thread(committed: World) -> None:
    buffer, day = UsageBuffer(), date(2026, 1, 1)

    def count(requests: int) -> None:
        buffer.add(committed.tenant.pk, day, "mood", UsageCount(requests, 1, 1, 0))
        buffer.flush_after(0.05)

    count(1)
    wait_until(lambda: [row["requests"] for row in counted(committed)] == [1])
    count(3)
    wait_until(lambda: [row["requests"] for row in counted(committed)] == [4])


def test_usage_that_could_not_be_written_is_written_once_the_database_is_back(
    committed: World, caplog: pytest.LogCaptureFixture
) -> None:
    buffer, known = UsageBuffer(), connection.settings_dict
    as_admin = {"host": known["HOST"], "user": EMBEDDED_ADMIN, "dbname": known["NAME"]}
    with psycopg.connect(**as_admin, autocommit=True) as admin:
        admin.execute(f'ALTER ROLE "{known["USER"]}" NOLOGIN')
        try:
            buffer.add(committed.tenant.pk, date(2026, 1, 1), "mood", UsageCount(1, 1, 1, 0))
            buffer.flush_after(0.05)
            wait_until(lambda: "could not be written down yet" in caplog.text)
            assert counted(committed) == []
        finally:
            admin.execute(f'ALTER ROLE "{known["USER"]}" LOGIN')
    wait_until(lambda: [row["requests"] for row in counted(committed)] == [1])


@pytest.mark.parametrize(
    "table", ["usage_usageday", "usage_usagesum", "usage_answerday", "usage_loggedrequest"]
)
@platform_scope()
def test_a_failed_flush_keeps_everything_and_writes_nothing_twice(world: World, table: str) -> None:
    buffer, day = UsageBuffer(), date(2026, 1, 1)

    def down(execute: Any, sql: str, *rest: Any) -> Any:
        if f"INSERT INTO {table}" in sql:
            raise OperationalError("the server has gone away")
        return execute(sql, *rest)

    def add() -> None:
        buffer.add(world.tenant.pk, day, "mood", UsageCount(1, 2, 3, 0))
        buffer.add_answers(world.tenant.pk, day, "mood", 1, AnswerCount(texts=2))
        buffer.add_request(RequestEntry(world.tenant.pk, "r", "infer", 200))

    add()
    with connection.execute_wrapper(down):
        assert not buffer.flush_or_log()
    add()
    assert buffer.flush_or_log()
    assert UsageDay.unscoped.values_list("requests", "inputs", "tokens").get() == (2, 4, 6)
    assert UsageSum.unscoped.values_list("requests", "inputs", "tokens").get() == (2, 4, 6)
    assert AnswerDay.unscoped.values_list("texts").get() == (4,)
    assert LoggedRequest.unscoped.count() == 2


def test_counts_of_a_deleted_tenant_do_not_keep_others_from_being_written(world: World) -> None:
    buffer, day = UsageBuffer(), date(2026, 1, 1)
    for tenant_id in (world.tenant.pk, 10**9):
        buffer.add(tenant_id, day, "mood", UsageCount(1, 1, 1, 0))
    buffer.flush()
    assert [row["requests"] for row in counted(world)] == [1]
    with platform_scope():
        assert UsageDay.unscoped.count() == 1


@platform_scope()
def test_a_quota_allows_one_more_up_to_its_limit(world: World) -> None:
    for what in get_args(Counted):
        limit, check = f"max_{what.lower().replace(' ', '_')}", partial(quota_check, what=what)
        Quota.unscoped.filter(tenant=world.tenant).update(**{limit: 4})
        check(tenant=world.tenant, having=3)
        error = refused(ErrorCode.QUOTA_EXCEEDED, partial(check, tenant=world.tenant, having=4))
        assert error.status == 429, what
        assert error.details == {"quota": what, "limit": 4, "used": 4, "asked": 1}
        check(tenant=world.other, having=2)


def test_a_storage_quota_can_be_filled_to_the_last_byte(world: World) -> None:
    Quota.unscoped.filter(tenant=world.tenant).update(max_storage_bytes=10)
    quota_check_storage(tenant=world.tenant, adding_bytes=10)
    refused(ErrorCode.QUOTA_EXCEEDED, lambda: quota_check_storage(tenant=world.tenant, adding_bytes=11))


def test_a_daily_quota_counts_requests_of_today_and_says_when_to_retry(world: World) -> None:
    Quota.unscoped.filter(tenant=world.tenant).update(max_requests_per_day=2)
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    for day in (yesterday, yesterday, yesterday, None):
        usage_record(tenant=world.tenant, model_name="mood", inputs=1, tokens=1, day=day)
    quota_check_requests(tenant=world.tenant)
    usage_record(tenant=world.tenant, model_name="spam", inputs=1, tokens=1)
    error = refused(ErrorCode.QUOTA_EXCEEDED, lambda: quota_check_requests(tenant=world.tenant))
    assert error.retry_after is not None
    assert 1 <= error.retry_after <= 24 * 3600


def test_new_usage_and_a_new_quota_take_effect_when_the_cached_ones_expire(
    world: World, buffered: Settings
) -> None:
    buffered.HMI_KEY_CACHE_S = 0.2
    Quota.unscoped.filter(tenant=world.tenant).update(max_requests_per_day=5)
    quota_check_requests(tenant=world.tenant)
    use(world, 5)
    usage_flush()
    wait_until(lambda: not may_ask(world))
    Quota.unscoped.filter(tenant=world.tenant).update(max_requests_per_day=6)
    wait_until(lambda: may_ask(world))


def may_ask(world: World) -> bool:
    try:
        quota_check_requests(tenant=world.tenant)
    except HmiError:
        return False
    return True


def test_a_tenant_without_a_quota_row_has_the_defaults(world: World) -> None:
    Quota.unscoped.filter(tenant=world.tenant).delete()
    assert quota_of(world.tenant).max_domains == 3
    assert quota_lock(tenant=world.tenant).max_models == 50

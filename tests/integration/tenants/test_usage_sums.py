"""Sums of usage: by day and key as they are stored, and by every period as they are shown."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum

from tenants.accounts.services.tenant_deletion import tenant_anonymize
from tenants.usage.models import UsageDay, UsageSum
from tenants.usage.selectors import (
    SUMMED,
    UsageBy,
    has_usage,
    most_requests,
    requests_today,
    usage_batches,
    usage_by,
    usage_total,
)
from tenants.usage.services.usage_buffer import UsageBuffer, UsageCount
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_platform_scope")

FIRST = date(2026, 1, 1)
KEYS = ("", "k1", "k2")
HPLMS = ("mood", "spam")


def count(world: World, *, requests: int = 1, days: int = 3, buffer: UsageBuffer | None = None) -> None:
    """Count requests of both tenants, of each model and key on each day, and write them."""
    buffer = buffer or UsageBuffer()
    for tenant in (world.tenant, world.other):
        for day in range(days):
            for hplm in HPLMS:
                for key in KEYS:
                    usage = UsageCount(
                        requests=requests,
                        inputs=2,
                        tokens=3,
                        failed=1,
                        busy_ms=0.5,
                        generated_tokens=1,
                        refused=4,
                    )
                    buffer.add(tenant.pk, FIRST + timedelta(days=day), hplm, usage, key)
    buffer.flush()


def stored_sums() -> list[Any]:
    rows = UsageSum.unscoped.order_by("tenant", "day", "key_prefix")
    return list(rows.values_list("tenant", "day", "key_prefix", *SUMMED))


def sums_of_rows() -> list[Any]:
    groups = UsageDay.unscoped.order_by("tenant", "day", "key_prefix").values_list(
        "tenant", "day", "key_prefix"
    )
    return list(groups.annotate(*(Sum(name) for name in SUMMED)))


def test_stored_sums_equal_the_rows_after_flushes_and_an_anonymization(world: World) -> None:
    for requests in (5, 7):
        count(world, requests=requests)
        assert stored_sums() == sums_of_rows()
    assert len(stored_sums()) == 2 * 3 * len(KEYS)
    tenant_anonymize(tenant=world.tenant)
    assert stored_sums() == sums_of_rows()
    assert set(UsageSum.objects.for_tenant(world.tenant).values_list("key_prefix", "requests")) == {("", 72)}


def test_a_tenant_with_only_refused_requests_has_no_usage(world: World) -> None:
    buffer = UsageBuffer()
    buffer.add(world.tenant.pk, FIRST, "mood", UsageCount(refused=1))
    buffer.add(world.other.pk, FIRST, "mood", UsageCount(requests=1))
    buffer.flush()
    assert not has_usage(world.tenant)
    assert has_usage(world.other)


def test_flushes_of_several_processes_at_once_lose_and_double_nothing(committed: World) -> None:
    def process(number: int) -> None:
        for _ in range(5):
            count(committed, requests=number)
        connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(process, range(1, 5)))
    assert stored_sums() == sums_of_rows()
    total = usage_total(committed.tenant, FIRST, FIRST)
    assert (total.requests, total.refused) == ((1 + 2 + 3 + 4) * 5 * 6, 4 * 4 * 5 * 6)


def test_all_sums_of_a_period_agree(world: World) -> None:
    count(world)
    period = (world.tenant, FIRST + timedelta(days=1), FIRST + timedelta(days=2))
    total = usage_total(*period)
    assert (total.requests, total.inputs, total.tokens, total.failed) == (12, 24, 36, 12)
    assert (total.generated_tokens, total.refused, total.busy_ms) == (12, 48, 6.0)
    for by in UsageBy:
        assert sum(row["requests"] for row in usage_by(period[0], by, *period[1:])) == 12, by
    assert most_requests(period[0], UsageBy.MODEL, *period[1:], limit=1) == {"mood": 6}
    assert most_requests(period[0], UsageBy.KEY, *period[1:], limit=None) == dict.fromkeys(KEYS, 4)
    [spam] = usage_by(period[0], UsageBy.MODEL, *period[1:], names=["spam"])
    assert (spam["name"], spam["requests"]) == ("spam", 6)
    assert requests_today(world.tenant) == 0


def test_batches_have_every_row_once_newest_day_first(world: World) -> None:
    count(world)
    since, until = FIRST + timedelta(days=1), FIRST + timedelta(days=2)
    columns = ("day", "model_name", "key_prefix")
    read = partial(usage_batches, world.tenant, since, until, columns, batch_size=2)
    rows = [row for batch in read() for row in batch]
    assert rows == [(day, hplm, key) for day in (until, since) for hplm in HPLMS for key in KEYS]


def test_no_connection_is_open_between_two_batches(committed: World) -> None:
    count(committed, days=1)
    batches = usage_batches(committed.tenant, FIRST, FIRST, ("requests",), batch_size=4)
    assert len(next(batches)) == 4
    assert connection.connection is None
    assert [len(batch) for batch in batches] == [2]

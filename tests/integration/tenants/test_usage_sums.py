"""Whatever happens to the rows of usage, the sums by day and key and by month and model are theirs."""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F, Sum
from django.db.models.functions import TruncMonth
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tenants.accounts.services.tenant_deletion import tenant_anonymize
from tenants.usage.models import UsageDay, UsageMonth, UsageSum
from tenants.usage.selectors import SUMMED, UsageBy, requests_today, usage_batches, usage_by, usage_total
from tenants.usage.services.usage_buffer import UsageBuffer, UsageCount
from tests.integration.world import World, make_world

pytestmark = pytest.mark.usefixtures("in_platform_scope")

FIRST = date(2026, 1, 1)
KEYS = ("", "k1", "k2")
HPLMS = ("mood", "spam")
later = itertools.count(10, 10)
"""Days, of which none is taken yet."""

PLACE = (False, FIRST, "mood", "")
days = st.integers(0, 2).map(lambda days: FIRST + timedelta(days=days))
places = st.tuples(st.booleans(), days, st.sampled_from(HPLMS), st.sampled_from(KEYS))
ranges = st.tuples(st.booleans(), days, st.sampled_from(HPLMS))
counts = st.builds(
    UsageCount,
    requests=st.integers(0, 9),
    inputs=st.integers(0, 9),
    tokens=st.integers(9, 10**12),
    generated_tokens=st.integers(0, 9),
    refused=st.integers(0, 9),
)
steps = st.one_of(
    st.tuples(st.just("count"), st.lists(st.tuples(places, counts), min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["double", "delete", "rename", "undo"]), ranges),
    st.tuples(st.just("leave"), st.booleans()),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(done=st.lists(steps, max_size=8))
@example([("count", [(PLACE, UsageCount(1, refused=1))]), ("rename", PLACE[:3]), ("leave", False)])
def test_sums_are_those_of_the_rows_whatever_is_done_to_them(world: World, done: list[Any]) -> None:
    with transaction.atomic():
        for name, told in done:
            STEPS[name](world, told)
            assert kept() == added_up()
            assert months_kept() == months_added_up()
        transaction.set_rollback(True)


@pytest.fixture
def committed(transactional_db: None, upload_root: Path) -> World:
    """One that other connections see."""
    return make_world()


def test_who_adds_up_waits_for_who_came_first(committed: World) -> None:
    """Else one that has this tenant's sums and wants that one's would meet another that has them the other
    way round."""
    first, second = UsageBuffer(), UsageBuffer()
    first.add(committed.tenant.pk, FIRST, "mood", UsageCount(1, 1, 1))
    second.add(committed.other.pk, FIRST, "mood", UsageCount(2, 2, 2))
    done = threading.Event()

    def write() -> None:
        second.flush()
        connection.close()
        done.set()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first.flush()
            writing = pool.submit(write)
            while not waiting_for_locks():
                assert not done.is_set()
        writing.result()
    assert kept() == added_up()
    assert len(kept()) == 2


def test_nothing_is_lost_where_several_write_and_delete_at_once(committed: World) -> None:
    """Each by a connection of its own, as processes do."""

    def work(number: int) -> None:
        for day in range(6):
            buffer = UsageBuffer()
            for tenant in (committed.tenant, committed.other):
                buffer.add(
                    tenant.pk, FIRST + timedelta(days=20 * day), HPLMS[day % 2], UsageCount(number, 1, 1)
                )
            buffer.flush()
            some(committed, (day % 2, FIRST + timedelta(days=20 * (day - 3)), HPLMS[number % 2])).delete()
        connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 5)))
    assert kept() == added_up() != []
    assert months_kept() == months_added_up() != []


def waiting_for_locks() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return bool(cursor.fetchone()[0])


def count(world: World, told: list[Any]) -> None:
    buffer = UsageBuffer()
    for (other, day, hplm, key), counted in told:
        tenant = world.other if other else world.tenant
        buffer.add(tenant.pk, day, hplm, counted, key)
    buffer.flush()


def some(world: World, chosen: Any) -> Any:
    """Those of a model up to a day."""
    other, day, hplm = chosen
    tenant = world.other if other else world.tenant
    return UsageDay.objects.for_tenant(tenant).filter(day__lte=day, model_name=hplm)


def undo(world: World, chosen: Any) -> None:
    with transaction.atomic():
        some(world, chosen).delete()
        transaction.set_rollback(True)


STEPS: dict[str, Callable[[World, Any], object]] = {
    "count": count,
    "double": lambda world, chosen: some(world, chosen).update(requests=F("requests") * 2),
    "delete": lambda world, chosen: some(world, chosen).delete(),
    "rename": lambda world, chosen: some(world, chosen).update(day=F("day") + timedelta(days=next(later))),
    "undo": undo,
    "leave": lambda world, other: tenant_anonymize(tenant=world.other if other else world.tenant),
}


def kept() -> list[Any]:
    """What the product says, those of nothing left out."""
    rows = UsageSum.unscoped.exclude(requests=0, inputs=0, tokens=0, failed=0)
    return list(rows.order_by("tenant", "day", "key_prefix").values_list(*COLUMNS))


def added_up() -> list[Any]:
    rows = UsageDay.unscoped.all()
    by = rows.order_by("tenant", "day", "key_prefix").values_list("tenant", "day", "key_prefix")
    return list(by.annotate(*(Sum(name) for name in WHOLE)))


def months_kept() -> list[Any]:
    """The same of months and models."""
    rows = UsageMonth.unscoped.order_by("tenant", "month", "model_name")
    return list(rows.values_list("tenant", "month", "model_name", *WHOLE))


def months_added_up() -> list[Any]:
    rows = UsageDay.unscoped.annotate(month=TruncMonth("day"))
    by = rows.order_by("tenant", "month", "model_name").values_list("tenant", "month", "model_name")
    return list(by.annotate(*(Sum(name) for name in WHOLE)))


WHOLE = [name for name in SUMMED if name != "busy_ms"]
COLUMNS = ("tenant", "day", "key_prefix", *WHOLE)


def test_of_a_key_whose_rows_go_nothing_is_known_any_more(world: World) -> None:
    count(world, [((False, FIRST, "mood", "k1"), UsageCount(3, 4, 5, 1, 2.5))])
    assert UsageSum.objects.for_tenant(world.tenant).values_list("key_prefix", "busy_ms").get() == ("k1", 2.5)
    some(world, (False, FIRST, "mood")).delete()
    assert not UsageSum.unscoped.exists()
    assert not UsageMonth.unscoped.exists()


def test_all_that_is_shown_of_a_period_agrees(world: World) -> None:
    told = [
        ((False, FIRST + timedelta(days=day), hplm, key), UsageCount(day + 1, 2, 3, 1))
        for day in range(3)
        for hplm in HPLMS
        for key in KEYS
    ]
    count(world, [*told, ((True, FIRST, "mood", ""), UsageCount(1000, 1, 1))])
    period = (world.tenant, FIRST + timedelta(days=1), FIRST + timedelta(days=2))
    total = usage_total(*period)
    assert (total.requests, total.failed) == (30, 12)
    for by in UsageBy:
        assert sum(row["requests"] for row in usage_by(period[0], by, *period[1:])) == 30, by
    assert [row["name"] for row in usage_by(period[0], UsageBy.MODEL, *period[1:], names=["spam"])] == [
        "spam"
    ]
    whole = (period[0], UsageBy.MODEL, FIRST, date(2026, 1, 31))
    assert list(usage_by(*whole)) == list(usage_by(*whole[:3])) != []
    assert [row["requests"] for row in usage_by(*whole)] == [18, 18], "of whole months from their sums"
    read = partial(usage_batches, *period, ("day", "model_name", "key_prefix", "requests"))
    for batch_size in (1, 2, 100):
        rows = [row for part in read(batch_size=batch_size) for row in part]
        newest_first = sorted(rows, key=lambda row: (-row[0].toordinal(), row[1], row[2]))
        assert rows == newest_first
        assert (len(rows), sum(row[3] for row in rows)) == (12, 30)
    assert requests_today(world.tenant) == 0


@pytest.mark.django_db(transaction=True)
def test_between_two_parts_nothing_is_open(transactional_db: None) -> None:
    from tests.integration.world import make_world

    world = make_world()
    count(world, [((False, FIRST, hplm, ""), UsageCount(1, 1, 1)) for hplm in HPLMS])
    parts = usage_batches(world.tenant, FIRST, FIRST, ("requests",), batch_size=1)
    assert next(parts) == [(1,)]
    assert connection.connection is None
    assert next(parts) == [(1,)]
    assert list(parts) == []

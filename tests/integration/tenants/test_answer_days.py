"""Counting what a version answered, by day."""

from datetime import date
from typing import Any

import pytest
from django.utils import timezone

from tenants.accounts.models import Tenant
from tenants.base.scope import platform_scope
from tenants.usage.models import AnswerDay
from tenants.usage.selectors import answers_by_day, busiest_versions
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.usage import answers_record
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_acme_scope")
DAY = date(2026, 1, 1)
SOME = AnswerCount(
    texts=10,
    table_texts=8,
    confidence=7.5,
    cascade_texts=8,
    escalated_texts=2,
    whole=50,
    part=30,
    unigram=20,
    checked_texts=4,
    agreed_texts=3,
)


def record(tenant: Tenant, count: AnswerCount = SOME, **more: Any) -> None:
    answers_record(
        **{"tenant": tenant, "model_name": "mood", "version": 1, "count": count, "day": DAY, **more}
    )


def test_answers_add_up_by_version_and_day(world: World) -> None:
    for more in ({}, {}, {"version": 2}, {"day": date(2026, 1, 2)}, {"model_name": "spam"}):
        record(world.tenant, **more)
    with platform_scope():
        record(world.other)
    first, second = answers_by_day(world.tenant, "mood", 1, DAY)
    assert (first.day, first.texts, second.day, second.texts) == (DAY, 20, date(2026, 1, 2), 10)
    assert first.mean_confidence == pytest.approx(0.75)
    assert first.escalated_share == pytest.approx(0.25)
    assert first.coverage == pytest.approx((0.5, 0.3, 0.2))
    assert first.agreement == pytest.approx(0.75)
    assert [day.version for day in answers_by_day(world.tenant, "mood", 2, DAY)] == [2]
    assert answers_by_day(world.tenant, "mood", 1, date(2026, 1, 3)) == []


def test_what_has_no_figure_is_none(world: World) -> None:
    record(world.tenant, AnswerCount(texts=3))
    (day,) = answers_by_day(world.tenant, "mood", 1, DAY)
    assert (day.mean_confidence, day.escalated_share, day.coverage, day.agreement) == (None,) * 4


def test_nothing_is_kept_of_a_tenant_that_is_being_deleted(world: World) -> None:
    now = timezone.now()
    Tenant.objects.filter(pk=world.tenant.pk).update(suspended_at=now, deletion_requested_at=now)
    record(world.tenant)
    assert not AnswerDay.objects.for_tenant(world.tenant).exists()


@platform_scope()
def test_the_busiest_versions_of_a_day_come_first(world: World) -> None:
    for tenant, version, times in ((world.tenant, 1, 2), (world.tenant, 2, 1), (world.other, 1, 3)):
        for _ in range(times):
            record(tenant, version=version)
    record(world.other, day=date(2026, 1, 2))
    found = [(day.tenant.slug, day.version, day.texts) for day in busiest_versions(DAY, 2)]
    assert found == [("globex", 1, 30), ("acme", 1, 20)]

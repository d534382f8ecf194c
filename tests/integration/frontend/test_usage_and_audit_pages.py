"""What was used, what may be used, and who did what, as pages and as files for spreadsheets."""

import csv
import io
import re
from datetime import UTC, date, datetime, timedelta

import pytest
from django.test import Client

from frontend.presenters.charts import daily_columns
from tenants.accounts.services.api_keys import api_key_create
from tenants.audit.models import AuditEvent
from tenants.audit.services import audit_record
from tenants.usage.models import UsageDay, UsageSum
from tenants.usage.services.usage import usage_sums_rebuild
from tests.e2e.world import World


def today() -> date:
    """Asked anew by each test: midnight may have come since this file was read."""
    return datetime.now(UTC).date()


def use(
    world: World,
    day: date,
    hplm: str = "triage",
    key: str = "",
    requests: int = 10,
    failed: int = 0,
    generated: int = 0,
) -> None:
    UsageDay.unscoped.create(
        tenant=world.tenant,
        day=day,
        model_name=hplm,
        key_prefix=key,
        requests=requests,
        failed=failed,
        inputs=2 * requests,
        tokens=9 * requests,
        generated_tokens=generated,
        busy_ms=50.0 * requests,
    )
    usage_sums_rebuild(tenant=world.tenant)


@pytest.fixture
def used(world: World) -> str:
    """Usage of three months by two models and a key, whose prefix this is; that of the world itself goes."""
    UsageDay.unscoped.all().delete()
    UsageSum.unscoped.all().delete()
    key, _ = api_key_create(tenant=world.tenant, name="Help desk", scopes=["infer"], created_by=world.owner)
    use(world, today(), failed=4)
    use(world, today(), key=key.prefix, requests=30, generated=70)
    use(world, today() - timedelta(days=3), hplm="=1+1", requests=7)
    use(world, today() - timedelta(days=40), requests=1000)
    return key.prefix


def text(client: Client, address: str) -> str:
    """What stands on a page, without its markup."""
    answer = client.get(f"/t/acme/{address}")
    assert answer.status_code == 200, address
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def table(client: Client, address: str) -> list[list[str]]:
    """The lines of a file."""
    content = b"".join(client.get(f"/t/acme/{address}").streaming_content)  # type: ignore[attr-defined]
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


def test_the_period_is_chosen_and_added_up(owner: Client, used: str) -> None:
    page = text(owner, "usage/")
    assert "Requests 47 4 failed" in page
    assert "Failed 8.51%" in page
    assert "Help desk 30" in page
    assert "Web UI 17" in page
    assert "triage 40" in page
    assert "1,047" in text(owner, "usage/?period=90")
    first, last = today() - timedelta(days=41), today() - timedelta(days=1)
    assert "Requests 1,007 0 failed" in text(owner, f"usage/?period=range&since={first}&until={last}")
    assert "Requests 1,007 0 failed" in text(owner, f"usage/?since={first}&until={last}"), "days are enough"
    assert "1,000" not in text(owner, "usage/?period=month&by=model").partition("Limits")[0]


def test_usage_is_shown_of_one_hplm_or_key_alone(owner: Client, used: str) -> None:
    asked = {
        "model=triage": "Requests 40 4 failed",
        f"key={used}": "Requests 30 0 failed",
        "key=browser": "Requests 17 4 failed",
        "model=triage&key=browser": "Requests 10 4 failed",
        f"model=%3D1%2B1&key={used}": "Requests 0 0 failed",
        "key=gone": "Requests 0 0 failed",
        f"model={'x' * 101}": "Requests 47 4 failed",
    }
    for query, said in asked.items():
        assert said in text(owner, f"usage/?{query}&by=key"), query
    alone = owner.get(f"/t/acme/usage/?key={used}&by=model")
    assert [row.name for row in alone.context["rows"]] == ["triage"]
    chart = "".join(column.title for column in alone.context["chart"].columns)
    assert sum(map(int, re.findall(r"(\d+) answered", chart))) == 30
    assert [line[1:4] for line in table(owner, "usage.csv?period=90&model=triage&key=browser")[1:]] == [
        ["triage", "", "10"],
        ["triage", "", "1000"],
    ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("period=range", "Choose the first day."),
        ("period=range&since=2026-02-02&until=2026-02-01", "The last day is before the first day."),
        ("period=range&since=1900-01-01&until=2026-01-01", "Choose at most 366 days."),
        ("period=nonsense&by=nonsense", "Select a valid choice."),
    ],
)
def test_a_period_that_makes_no_sense_is_said_and_the_usual_one_shown(
    owner: Client, used: str, query: str, said: str
) -> None:
    page = text(owner, f"usage/?{query}")
    assert said in page
    assert "Requests 47" in page


def test_usage_as_a_file_has_a_line_for_each_hplm_and_key_and_no_formula(owner: Client, used: str) -> None:
    lines = table(owner, "usage.csv?period=7")
    assert [line[1:4] for line in lines[1:]] == [
        ["triage", "", "10"],
        ["triage", used, "30"],
        ["'=1+1", "", "7"],
    ]


def test_many_days_are_added_up_by_weeks_and_none_is_lost() -> None:
    first, last = date(2026, 1, 1), date(2026, 12, 31)
    every = {first + timedelta(days=n): (n, 1) for n in range(365)}
    by_day = daily_columns("Requests", ["Answered", "Failed"], every, first, first + timedelta(days=91))
    assert len(by_day.columns) == 92
    assert by_day.columns[5].title == "6 Jan 2026: 5 answered, 1 failed"
    by_week = daily_columns("Requests", ["Answered", "Failed"], every, first, last)
    assert len(by_week.columns) == 53
    counted = [re.findall(r"[\d,]+(?= answered)", column.title)[0] for column in by_week.columns]
    assert sum(int(number.replace(",", "")) for number in counted) == sum(range(365))
    empty = daily_columns("Requests", ["Answered", "Failed"], {}, first, first)
    assert [column.blocks for column in empty.columns] == [[]]


def test_events_are_told_in_sentences_with_their_details_and_page_by_page(
    owner: Client, world: World
) -> None:
    for number in range(60):
        detail = {"from": number, "reason": "<b>why</b>"}
        audit_record(
            verb="quota.change", subject=f"n{number}", tenant=world.tenant, actor=world.owner, detail=detail
        )
    page = owner.get("/t/acme/audit/").content.decode()
    assert "&lt;b&gt;why&lt;/b&gt;" in page
    assert "olga changed the quota of n59" in text(owner, "audit/")
    older = re.search(r'href="(\?before=\d+)"', page)
    assert older is not None
    assert "changed the quota of n9 " in text(owner, f"audit/{older[1]}")
    assert "olga created the model" in text(owner, "audit/?kind=model")
    assert "No matching events" in text(owner, "audit/?words=absent")
    for nonsense in ("before=x", "before=99999999999999999999", "actor=nobody", "since=x"):
        assert "n59" in text(owner, f"audit/?{nonsense}")
    assert len(table(owner, "audit.csv?kind=quota")) == 61


def test_an_event_of_an_unknown_kind_is_told_all_the_same(owner: Client, world: World) -> None:
    audit_record(verb="moon.fly_to", subject="crater", tenant=world.tenant, actor=None)
    assert "The system moon: fly to crater" in text(owner, "audit/")
    assert AuditEvent.objects.for_tenant(world.tenant).latest("pk").address is None

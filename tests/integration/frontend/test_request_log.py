"""The page of the request log, and the ways to it."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tenants.usage.models import LoggedRequest, OmittedRequests
from tests.e2e.world import World

TIMINGS = {"queue": 9.44, "retrieval": 1.4, "adapter_load": 0.2, "compute": 112.9, "total": 124.0}


def log(world: World, name: str, **fields: Any) -> None:
    answered = {"api": "infer", "status": 200, "model_name": "triage", "version": 1, "latency_ms": 31.7}
    LoggedRequest.unscoped.create(
        **{"tenant": world.tenant, "request_id": name, "at": datetime.now(UTC), **answered, **fields}
    )


@pytest.fixture
def logged(world: World) -> None:
    """An answered request, a refused one and a slow one."""
    details = {"levels": {"table": 3, "full": 1}, "timings_ms": TIMINGS}
    log(world, "good", key_prefix="abcdefgh", level="cascade", inputs=4, tokens=1118, details=details)
    log(world, "limited", status=429, error_code="rate_limited", version=None, model_name="", latency_ms=0.84)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    log(world, "late", status=504, error_code="deadline_exceeded", latency_ms=30_012.0, at=yesterday)


def shown(client: Client, query: str = "") -> str:
    """The text of the page."""
    answer = client.get(f"/t/acme/requests/{query}")
    assert answer.status_code == 200
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def ids(client: Client, query: str = "") -> list[str]:
    return [row.entry.request_id for row in client.get(f"/t/acme/requests/{query}").context["rows"]]


@pytest.mark.usefixtures("logged")
def test_times_choose_a_window(owner: Client) -> None:
    now = datetime.now(UTC)
    hour_ago = f"{now - timedelta(hours=1):%Y-%m-%dT%H:%M}"
    assert ids(owner, f"?since={hour_ago}") == ["limited", "good"]
    assert ids(owner, f"?until={hour_ago}") == ["late"]
    assert f'value="{hour_ago}"' in owner.get(f"/t/acme/requests/?since={hour_ago}").content.decode()


def test_pages_go_from_newer_to_older(owner: Client, world: World) -> None:
    for number in range(60):
        log(world, f"r{number:02}")
    first = owner.get("/t/acme/requests/?model=triage")
    assert len(first.context["rows"]) == 50
    assert "Older" in first.content.decode()
    older = ids(owner, f"?model=triage&before={first.context['older']}")
    assert older == [f"r{number:02}" for number in range(9, -1, -1)]
    assert len(ids(owner, "?before=nonsense")) == 50


def test_the_page_says_that_it_is_a_sample(owner: Client, world: World, settings: Settings) -> None:
    assert "sample" not in shown(owner)
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    OmittedRequests.unscoped.create(tenant=world.tenant, hour=hour, requests=12_400, failed=3)
    assert "This is a sample. 12,400 more requests" in shown(owner)
    assert "sample" not in shown(owner, "?until=2026-01-01T00:00")
    settings.HMI_REQUEST_LOG_DAYS = 0
    assert "The request log is disabled on this installation." in shown(owner)


@pytest.mark.usefixtures("logged")
def test_the_file_has_what_the_filters_leave(owner: Client) -> None:
    def lines(query: str) -> list[list[str]]:
        answer: Any = owner.get(f"/t/acme/requests.csv{query}")
        return list(csv.reader(io.StringIO(b"".join(answer.streaming_content).decode("utf-8-sig"))))

    rows = lines("?model=triage&code=deadline_exceeded")[1:] + lines("?status=refused")[1:]
    assert [row[1:9] for row in rows] == [
        ["late", "infer", "triage", "1", "", "504", "deadline_exceeded", "30012.0"],
        ["limited", "infer", "", "", "", "429", "rate_limited", "0.84"],
    ]
    assert len(lines("")) == 4


def test_texts_are_shown_as_text(owner: Client, world: World) -> None:
    log(world, "told", texts=["<script>alert(1)</script>"])
    page = owner.get(address(world)).content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def address(world: World) -> str:
    """The page of the newest request."""
    return f"/t/acme/requests/{LoggedRequest.unscoped.latest('pk').pk}/"


def test_a_refused_request_says_which_field_and_what_to_send_instead(owner: Client, world: World) -> None:
    message = "Input 0 has an unknown field …; it must be a string."
    refused = {"status": 422, "error_code": "invalid_field", "param": "inputs[0].txt", "message": message}
    log(world, "wrong", reference="acme/triage", **refused)
    assert f"inputs[0].txt: {message}" in shown(owner, "?status=refused")
    page = owner.get(address(world)).content.decode()
    assert f"inputs[0].txt: {message}" in page
    assert "What to send instead" in page
    assert "acme/triage" in page.partition("curl")[2]


def test_a_wrong_name_leads_to_the_most_similar_model(owner: Client, world: World) -> None:
    unknown = {"status": 404, "error_code": "not_found", "version": None, "model_name": ""}
    log(world, "typo", reference="acme/traige", message="There is no such model.", **unknown)
    assert "acme/triage" in owner.get(address(world)).content.decode().partition("curl")[2]


def test_a_request_that_may_be_sent_again_as_it_is_has_no_other_call(owner: Client, world: World) -> None:
    log(world, "limited", status=429, error_code="rate_limited", version=None, model_name="triage")
    page = owner.get(address(world)).content.decode()
    assert "Wait for Retry-After" in page
    assert "What to send instead" not in page


def test_a_request_of_another_tenant_has_no_page(client: Client, world: World) -> None:
    log(world, "theirs")
    client.force_login(world.stranger)
    assert client.get(address(world).replace("acme", "umbra")).status_code == 404

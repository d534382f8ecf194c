"""Pages as a new user meets them: uploads by the form, failed requests, and the words of counts."""

import html
import json
import re
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from frontend.forms.data import COLUMN_LABELS
from frontend.presenters.canaries import canary_trials
from frontend.presenters.requests import request_row
from frontend.status import STYLES
from hmi_site.dashboard.work import requests_by_day
from hmi_site.metrics.platform import _database_metrics
from inference.api.request_trace import RequestTrace
from inference.batches.models import BatchState
from tenants.accounts.services.api_keys import api_key_create
from tenants.base.errors import ErrorCode
from tenants.datasets.formats.rows import OPTIONAL_COLUMNS, REQUIRED_COLUMNS
from tenants.datasets.models import DATASET_TASKS
from tenants.usage.models import LoggedRequest, RequestApi, RequestStatus, UsageDay, UsageSum
from tenants.usage.selectors import usage_total
from tenants.usage.services.answer_counts import AnswerCount
from tenants.usage.services.usage import answers_record
from tests.e2e.world import World, nothing_of_use, versions_finish
from tests.integration.frontend.conftest import (  # noqa: F401 - fixtures
    built,
    default_scope,
    owner,
    world,
)
from versiontree.jobs.models import JobState
from versiontree.tree.models.version import VersionState
from versiontree.tree.services.canaries import canary_start
from versiontree.tree.services.hplms import hplm_update


def page_text(response: Any) -> str:
    """The text of a page as people read it."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def test_every_task_state_and_error_code_has_its_words() -> None:
    columns = {name for names in (*REQUIRED_COLUMNS.values(), *OPTIONAL_COLUMNS.values()) for name in names}
    assert columns <= COLUMN_LABELS.keys()
    assert set(DATASET_TASKS) == REQUIRED_COLUMNS.keys()
    states = [*JobState.values, *VersionState.values, *BatchState.values]
    assert set(states) <= STYLES.keys()
    assert {str(status) for status in RequestStatus} <= STYLES.keys()
    for code in ("", *ErrorCode):
        row = request_row(LoggedRequest(error_code=code, status=200, at=datetime.now(UTC)))
        assert bool(row.cause) == bool(code), code


CANARY = "Ca'na\"ry 4711 “x”"
REFUSALS: Final[list[tuple[str, dict[str, Any], str, str]]] = [
    (
        "/api/v1/infer",
        {"model": "triage", "inputs": [CANARY], "quality": CANARY},
        "quality",
        "must be one of",
    ),
    ("/api/v1/infer", {"model": "triage", "inputs": [{"text": "a", CANARY: "b"}]}, "", "unknown field …"),
    ("/v1/embeddings", {"model": "triage:9", "input": CANARY}, "model", "Ready versions: 1."),
    ("/v1/chat/completions", {"model": "triage", "messages": [{"role": CANARY}]}, "messages[0].content", ""),
    ("/v1/completions", {"model": "triage", "prompt": CANARY, "stop": [7]}, "stop", ""),
    ("/v2/models/triage/versions/9/infer", {"inputs": []}, "", ""),
]
"""Address, body, and what the log says: the field and a part of the message."""


@pytest.fixture
def key(world: World) -> str:  # noqa: F811
    return api_key_create(
        tenant=world.tenant, name="a key", scopes=["infer", "manage"], created_by=world.owner
    )[1]


def ask(client: Client, key: str, address: str, body: dict[str, Any]) -> Any:
    return client.post(
        address, json.dumps(body), content_type="application/json", headers={"Authorization": f"Bearer {key}"}
    )


@pytest.mark.parametrize(("address", "body", "param", "said"), REFUSALS)
def test_the_log_says_why_a_request_was_refused_and_nothing_of_its_texts(
    owner: Client,  # noqa: F811
    key: str,
    address: str,
    body: dict[str, Any],
    param: str,
    said: str,
) -> None:
    assert 400 <= ask(owner, key, address, body).status_code < 500
    entry = LoggedRequest.unscoped.get()
    assert entry.outcome is RequestStatus.REFUSED
    assert entry.message
    assert said in entry.message
    assert param in entry.param
    assert entry.reference == body.get("model", "triage:9")
    assert "4711" not in entry.message, "values stay out of the log"
    assert entry.message in html.unescape(page_text(owner.get("/t/acme/requests/")))


def test_refused_and_failed_requests_are_the_same_figures_everywhere(
    owner: Client,  # noqa: F811
    world: World,  # noqa: F811
    key: str,
) -> None:
    UsageDay.unscoped.all().delete()
    UsageSum.unscoped.all().delete()
    for _ in range(3):
        assert ask(owner, key, "/api/v1/infer", {"model": "triage:9", "inputs": ["a"]}).status_code == 404
    tenant = world.tenant
    for code, status in (("rate_limited", 429), ("deadline_exceeded", 504), ("worker_unavailable", 503)):
        trace = RequestTrace(RequestApi.INFER, code, tenant, reference="triage")
        trace.record(status, code)
    log = {
        status: len(owner.get("/t/acme/requests/", {"status": status}).context["rows"])
        for status in ("answered", "refused", "failed")
    }
    assert log == {"answered": 0, "refused": 4, "failed": 2}
    for page in ("/t/acme/", "/t/acme/usage/"):
        assert re.search(r"2 failed ?, 4 refused", page_text(owner.get(page))), page
    [row] = owner.get("/api/v1/usage?by=day", headers={"Authorization": f"Bearer {key}"}).json()["results"]
    assert (row["requests"], row["failed"], row["refused"]) == (2, 2, 4)
    assert requests_by_day()[-1].title.endswith("2 failed, 4 refused")
    metrics = {one.name: one for one in _database_metrics()}["hmi_requests_today"]
    assert {sample.labels["outcome"]: sample.value for sample in metrics.samples} == log
    assert usage_total(tenant, datetime.now(UTC).date()).refused == 4
    listed = owner.get("/api/v1/requests?status=refused", headers={"Authorization": f"Bearer {key}"}).json()
    assert {one["outcome"] for one in listed["results"]} == {"refused"}


@pytest.mark.parametrize("backend", ["locmem", "console", "smtp"])
def test_a_confirmation_link_is_announced_only_if_it_was_sent(
    owner: Client,  # noqa: F811
    settings: Settings,
    backend: str,
) -> None:
    settings.EMAIL_BACKEND = f"django.core.mail.backends.{backend}.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9  # nobody listens there
    page = owner.post(
        reverse("account_email"), {"action_add": "", "email": f"{backend}@example.org"}, follow=True
    )
    assert ("We sent a confirmation link" in page_text(page)) == (backend == "locmem")
    assert ("no e-mail could be sent" in page_text(page)) == (backend != "locmem")


def test_counts_of_a_canary_begin_with_the_canary(world: World) -> None:  # noqa: F811
    model = world.hplm.hplm
    assert model is not None
    update = hplm_update(hplm=model, dataset=world.dataset, actor=world.owner)
    versions_finish(update, {}, files=nothing_of_use)
    canary = model.versions.exclude(pk=model.aliases.get(name="default").version_id).get()

    def answer(times: int) -> None:
        for version in (1, 2):
            count = AnswerCount(requests=times, texts=times, confidence=0.5 * times)
            answers_record(tenant=world.tenant, model_name=model.name, version=version, count=count)

    answer(7)
    canary_start(hplm=model, name="default", version=canary, percent=10, actor=world.owner)
    answer(2)
    [trial] = canary_trials(world.tenant, [model.aliases.get(name="default")])
    figures = {name: (own, other) for name, own, other in trial.lines}
    assert figures["Requests"] == figures["Texts"] == ("2", "2")
    assert figures["Confidence"] == ("50.0%", "50.0%")

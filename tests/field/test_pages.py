"""Pages as a new user meets them: uploads by the form, failed requests, and the words of counts."""

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, cast

import pytest
from django import forms
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from frontend.forms.data import COLUMN_LABELS
from frontend.forms.usage import AuditForm
from frontend.presenters.canaries import canary_trials
from frontend.presenters.requests import request_row
from frontend.presenters.serving import serving_tiles
from frontend.status import STYLES
from hmi_site.dashboard.work import requests_by_day
from hmi_site.metrics.platform import _database_metrics
from inference.api.request_trace import RequestTrace
from inference.api.serving import Serving
from inference.batches.models import BatchState
from inference.queueing.status import DecoderStatus, WorkerStatus
from tenants.accounts.services.api_keys import api_key_create
from tenants.audit.services import audit_record
from tenants.base.errors import ErrorCode
from tenants.base.plurals import counted
from tenants.datasets.formats.rows import OPTIONAL_COLUMNS, REQUIRED_COLUMNS
from tenants.datasets.models import Dataset, Task
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

NEW, CHECK = "/t/acme/data/datasets/new/", "/t/acme/data/datasets/check/"
ROWS: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    Task.CLASSIFICATION: lambda n: {"text": f"text number {n}", "label": "ab"[n % 2]},
    Task.MULTILABEL: lambda n: {"text": f"text number {n}", "labels": ["a", "b"][: 1 + n % 2]},
    Task.REGRESSION: lambda n: {"text": f"text number {n}", "value": n / 2},
    Task.TAGGING: lambda n: {"tokens": ["take", f"pill{n}"], "tags": ["O", "B-DRUG"]},
    Task.QUESTION_ANSWERING: lambda n: {
        "question": f"what is number {n}",
        "context": f"the number is {n}",
        "answers": [{"text": str(n), "start": 14}],
    },
    Task.GENERATION: lambda n: {"prompt": f"say {n}", "completion": f"it is {n}"},
    Task.CHAT: lambda n: {
        "messages": [{"role": "user", "content": f"say {n}"}, {"role": "assistant", "content": f"it is {n}"}]
    },
}
"""A row of each task."""


def page_text(response: Any) -> str:
    """The text of a page as people read it."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def as_jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_table(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    """The rows as a table: labels, tokens and tags joined, other lists as JSON."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter)
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow([cell(name, value) for name, value in row.items()])
    return stream.getvalue()


def cell(name: str, value: Any) -> str:
    if name == "labels":
        return "|".join(value)
    if name in {"tokens", "tags"}:
        return " ".join(value)
    return json.dumps(value) if isinstance(value, list) else str(value)


def as_conll(rows: list[dict[str, Any]]) -> str:
    return "\n".join(
        "".join(f"{token} {tag}\n" for token, tag in zip(row["tokens"], row["tags"], strict=True))
        for row in rows
    )


FORMATS: Final[dict[str, Callable[[list[dict[str, Any]]], str]]] = {
    "jsonl": as_jsonl,
    "csv": as_table,
    "tsv": lambda rows: as_table(rows, "\t"),
    "conll": as_conll,
}
UPLOADS: Final = [
    (task, kind) for task in REQUIRED_COLUMNS for kind in FORMATS if kind != "conll" or task == Task.TAGGING
]


@pytest.mark.parametrize(("task", "kind"), UPLOADS)
def test_the_form_takes_a_file_of_every_task_and_format(
    owner: Client,  # noqa: F811
    world: World,  # noqa: F811
    task: str,
    kind: str,
) -> None:
    content = FORMATS[kind]([ROWS[task](n) for n in range(60)]).encode()

    def fields() -> dict[str, Any]:
        return {"name": "Mine", "task": task, "train": SimpleUploadedFile(f"rows.{kind}", content)}

    checked = owner.post(CHECK, fields())
    assert checked.status_code == 200
    assert "Invalid data" not in page_text(checked), page_text(checked)
    assert "Save dataset" in page_text(checked)
    stored = owner.post(NEW, fields(), follow=True)
    assert "Mine saved." in page_text(stored)
    assert Dataset.unscoped.get(name="Mine").task == task


def test_every_task_state_and_error_code_has_its_words() -> None:
    columns = {name for names in (*REQUIRED_COLUMNS.values(), *OPTIONAL_COLUMNS.values()) for name in names}
    assert columns <= COLUMN_LABELS.keys()
    assert set(Task.values) == REQUIRED_COLUMNS.keys() == ROWS.keys()
    states = [*JobState.values, *VersionState.values, *BatchState.values]
    assert set(states) <= STYLES.keys()
    assert {str(status) for status in RequestStatus} <= STYLES.keys()
    for code in ("", *ErrorCode):
        row = request_row(LoggedRequest(error_code=code, status=200, at=datetime.now(UTC)))
        assert bool(row.cause) == bool(code), code


MESSAGES = "Message,Category\n" + "".join(f"text number {n},{'ab'[n % 2]}\n" for n in range(60))
UNKNOWN = MESSAGES.replace("Category", "kind")


def test_columns_that_were_guessed_right_are_checked_with_the_guess(
    owner: Client,  # noqa: F811
    world: World,  # noqa: F811
) -> None:
    def checked(content: str) -> Any:
        file = SimpleUploadedFile("rows.csv", content.encode())
        return owner.post(CHECK, {"name": "Mine", "task": "classification", "train": file})

    page = checked(MESSAGES)
    text = page_text(page)
    assert "Invalid data" not in text
    assert "Save dataset" in text
    assert re.search(r"Text is Message ?, Label is Category .*Change", text), text
    assert {field.name: field.initial for field in page.context["columns"]} == {
        "column_text": "Message",
        "column_text_pair": "",
        "column_label": "Category",
    }
    refused = page_text(checked(UNKNOWN))
    assert "Choose the columns above" in refused
    assert "Label is" not in refused


CANARY = "Ca'na\"ry 4711 “x”"
REFUSALS: Final[list[tuple[str, dict[str, Any], str, str]]] = [
    (
        "/api/v1/infer",
        {"model": "triage", "inputs": [CANARY], "quality": CANARY},
        "quality",
        "must be one of",
    ),
    ("/api/v1/infer", {"model": "triage", "inputs": [{"text": "a", CANARY: "b"}]}, "", "unknown field …"),
    ("/api/v1/infer", {"model": "triage", "inputs": [""]}, "inputs[0]", "Input 0 is empty."),
    ("/api/v1/infer", {"model": "triage", "inputs": ["a"], CANARY: 1}, "", "Unknown field …"),
    ("/api/v1/infer", {"model": "triage@prod", "inputs": [CANARY]}, "model", "Aliases: default."),
    ("/api/v1/infer", {"model": "triage:9", "inputs": [CANARY]}, "model", "has no version 9"),
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
    assert entry.message in page_text(owner.get("/t/acme/requests/")).replace("&#x27;", "'")


def test_an_unknown_version_or_alias_names_those_that_there_are(
    client: Client,
    key: str,
) -> None:
    for address, body in (
        ("/api/v1/infer", {"model": "triage:9", "inputs": ["a"]}),
        ("/v1/embeddings", {"model": "triage@prod", "input": "a"}),
        ("/v2/models/triage/versions/9/infer", {"inputs": []}),
    ):
        answer = ask(client, key, address, body)
        assert answer.status_code == 404
        assert "Ready versions: 1. Aliases: default." in answer.content.decode()
    error = ask(client, key, "/api/v1/infer", {"model": "triage:9", "inputs": ["a"]}).json()["error"]
    assert error["details"] == {"versions": [1], "aliases": ["default"]}


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


@pytest.mark.parametrize(
    ("count", "word", "text"),
    [
        (1, "alias", "1 alias"),
        (2, "alias", "2 aliases"),
        (0, "batch", "0 batches"),
        (2, "query", "2 queries"),
        (1200, "key", "1,200 keys"),
        (2, "API key", "2 API keys"),
    ],
)
def test_counts_have_the_plural_of_their_word(count: int, word: str, text: str) -> None:
    assert counted(count, word) == text


def test_kinds_of_events_are_plurals(world: World) -> None:  # noqa: F811
    for verb in ("alias.move", "batch.create", "api_key.create"):
        audit_record(verb=verb, subject="x", tenant=world.tenant, actor=world.owner)
    kinds = cast("forms.ChoiceField", AuditForm(world.tenant).fields["kind"])
    labels = dict(cast("list[tuple[str, str]]", kinds.choices))
    assert [labels[kind] for kind in ("alias", "batch", "api_key")] == ["Aliases", "Batches", "API keys"]


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


def test_the_dashboard_counts_completions() -> None:
    decoders = (DecoderStatus("smol", 3, 2, generated_tokens=5000, completions=41),)
    worker = WorkerStatus("w1", "ready", "cpu", "float32", decoders=decoders)
    tiles = {tile.name: (tile.figure, tile.note) for tile in serving_tiles(Serving(0, 96, [worker, worker]))}
    assert tiles["Completions"] == ("82", "6 running, 4 waiting")
    assert tiles["Generated tokens"][0] == "10,000"

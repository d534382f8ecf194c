"""Uploads and reads over HTTP."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tenants.datasets.models import Corpus, Dataset
from tenants.usage.services.usage import usage_record
from tests.integration.tenants.content import (
    CORPORA,
    CORPUS,
    DATASETS,
    audit_of,
    nothing_is_left,
    post,
    rows,
    stored,
    upload,
)
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_acme_scope")


def test_a_dataset_is_previewed_uploaded_listed_shown_and_deleted(
    world: World, upload_root: Path, django_capture_on_commit_callbacks: Any
) -> None:
    client = world.client(key=world.key("manage")[1])
    content = "sentence;class\n" + "".join(f"text number {number};{number % 3}\n" for number in range(60))
    fields = {"task": "classification", "columns": json.dumps({"text": "sentence", "label": "class"})}
    shown = post(client, "/api/v1/datasets/preview", train=upload("a.csv", content), **fields)
    assert shown.status_code == 200, shown.content
    assert shown.json()["report"]["labels"] == ["0", "1", "2"]
    assert nothing_is_left(upload_root)
    made = post(client, "/api/v1/datasets", name="three", train=upload("a.csv", content), **fields)
    assert made.status_code == 201, made.content
    assert {split["split"]: split["rows"] for split in made.json()["splits"]} == {
        "train": 48,
        "dev": 6,
        "test": 6,
    }
    one = f"/api/v1/datasets/{made.json()['id']}"
    assert client.get(one).json() == made.json()
    assert len(client.get("/api/v1/datasets").json()["results"]) == 1
    with django_capture_on_commit_callbacks(execute=True):
        assert client.delete(one).status_code == 204
    assert nothing_is_left(upload_root)


def test_a_corpus_of_the_platform_is_in_no_tenants_list(world: World) -> None:
    address = "/api/v1/platform/corpora"
    made = post(world.client(world.staff), address, name="books", file=upload("a.txt", CORPUS))
    assert made.status_code == 201
    assert Corpus.unscoped.get().tenant is None
    assert len(world.client(world.staff).get(address).json()["results"]) == 1
    assert world.client(world.owner).get(CORPORA).json()["results"] == []


def test_a_tenant_shows_its_quota_and_use(world: World) -> None:
    usage_record(tenant=world.tenant, model_name="mood", inputs=1, tokens=9)
    post(world.client(world.developer), CORPORA, name="news", file=upload("a.txt", CORPUS))
    shown = world.client(world.viewer).get("/api/v1/tenants/acme").json()
    assert (shown["role"], shown["requests_today"], shown["storage_used_bytes"]) == ("viewer", 1, len(CORPUS))
    assert shown["quota"]["max_domains"] == 3
    listed = world.client(world.viewer).get("/api/v1/tenants").json()["results"]
    assert [(tenant["slug"], tenant["role"]) for tenant in listed] == [("acme", "viewer")]


def test_usage_is_summed_by_day_model_or_key_of_a_period(world: World) -> None:
    key = "abcdefgh"
    for day, hplm, key_prefix, failed in (
        (1, "mood", key, False),
        (1, "mood", "", True),
        (1, "spam", "", False),
        (3, "mood", "", False),
    ):
        usage_record(
            tenant=world.tenant,
            model_name=hplm,
            inputs=2,
            tokens=9,
            generated_tokens=4,
            day=date(2026, 3, day),
            key_prefix=key_prefix,
            failed=failed,
            busy_ms=1.5,
        )
    usage_record(tenant=world.other, model_name="mood", inputs=1, tokens=9, day=date(2026, 3, 1))
    client = world.client(world.viewer)

    def found(query: str) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = client.get(f"/api/v1/tenants/acme/usage?{query}").json()["results"]
        return results

    one = {"requests": 1, "inputs": 2, "tokens": 9, "generated_tokens": 4, "machine_ms": 1.5}
    one |= {"failed": 0, "refused": 0}
    two = {name: 2 * count for name, count in one.items()} | {"failed": 1}
    assert found("from=2026-03-01&to=2026-03-02") == [
        {"day": "2026-03-01", "model_name": "mood", **two},
        {"day": "2026-03-01", "model_name": "spam", **one},
    ]
    since = "since=2026-01-01"
    models = [(row["model"], row["requests"], row["failed"]) for row in found(f"{since}&by=model")]
    assert models == [("mood", 3, 1), ("spam", 1, 0)]
    keys = [(row["key"], row["requests"]) for row in found(f"{since}&by=key&to=2026-03-01")]
    assert keys == [("", 2), (key, 1)]
    for query, param in (("by=hour", "by"), ("from=2026-03-02&to=2026-03-01", "to"), ("from=x", "from")):
        answer = client.get(f"/api/v1/tenants/acme/usage?{query}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, param)


def test_lists_are_paged_with_few_queries(world: World, django_assert_max_num_queries: Any) -> None:
    for number in range(12):
        Dataset.unscoped.create(tenant=world.tenant, name=f"d{number}", task="tagging", labels=["x"])
    client = world.client(world.viewer)
    with django_assert_max_num_queries(9):
        page = client.get(f"{DATASETS}?limit=10").json()
    assert len(page["results"]) == 10
    assert len(client.get(page["next"]).json()["results"]) == 2


def test_stored_files_are_named_by_their_checksum(world: World, upload_root: Path) -> None:
    post(
        world.client(world.developer), CORPORA, name="../../etc/passwd", file=upload("../../evil.txt", CORPUS)
    )
    assert all(len(Path(name).name) == 64 for name in stored(upload_root))
    assert Corpus.unscoped.get().name == "../../etc/passwd"


ROWS = ("a.jsonl", rows(40))
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    (CORPORA, {"name": "x"}, "missing_field", "file"),
    (CORPORA, {"name": "x", "file": "a string"}, "invalid_field", "file"),
    (CORPORA, {"name": "x", "file": ("a.txt", b"")}, "empty_file", "file"),
    (
        DATASETS,
        {"name": "x", "task": "classification", "train": ROWS, "test": ("b.jsonl", b"PK\x03\x04")},
        "not_text",
        "test",
    ),
    (DATASETS, {"name": "x", "task": "classification"}, "missing_field", "train"),
    (
        DATASETS,
        {"name": "x", "task": "classification", "train": ROWS, "columns": "{"},
        "invalid_field",
        "columns",
    ),
    (
        DATASETS,
        {"name": "x", "task": "classification", "train": ROWS, "columns": '{"text": 5}'},
        "invalid_field",
        "columns",
    ),
]


def test_refused_form_names_its_field_and_leaves_nothing(world: World, upload_root: Path) -> None:
    for address, fields, code, param in REFUSED:
        sent = {key: upload(*value) if isinstance(value, tuple) else value for key, value in fields.items()}
        answer = post(world.client(world.developer), address, **sent)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (422, code, param)
        assert nothing_is_left(upload_root)


def test_leaking_splits_are_refused_until_they_are_allowed(world: World) -> None:
    client = world.client(world.developer)

    def files() -> dict[str, Any]:
        splits = {"train": upload("a.jsonl", rows(40)), "dev": upload("b.jsonl", rows(9))}
        return {"task": "classification", **splits}

    refused = post(client, DATASETS, name="leaky", **files())
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "leaking_splits")
    assert refused.json()["error"]["details"]["leaks"][0]["first_rows"][0] == 1
    made = post(client, DATASETS, name="leaky", allow_leaks="true", **files())
    assert made.status_code == 201, made.content
    assert made.json()["leaks_allowed"] is True


OWNERS_SETTINGS = [
    ("checks_answers", False, "tenant.set_answer_checks"),
    ("keeps_request_texts", True, "tenant.set_request_texts"),
]


def test_only_an_owner_changes_a_setting_of_the_tenant_which_is_in_the_audit_log(world: World) -> None:
    for setting, value, verb in OWNERS_SETTINGS:
        address, others = "/api/v1/tenants/acme", {name for name, _, _ in OWNERS_SETTINGS} - {setting}
        before = world.client(world.owner).get(address).json()
        refused = world.client(world.developer).patch(address, {setting: value}, format="json")
        assert refused.status_code == 403, setting
        for _ in range(2):
            changed = world.client(world.owner).patch(address, {setting: value}, format="json").json()
            assert changed[setting] is value is not before[setting]
            assert {name: changed[name] for name in others} == {name: before[name] for name in others}, (
                setting
            )
        assert audit_of(world.tenant).filter(verb=verb).count() == 1

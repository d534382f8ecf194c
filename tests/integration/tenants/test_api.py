"""Uploads and reads over HTTP."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tenants.accounts.services.tenants import tenant_set_answer_checks
from tenants.datasets.models import Corpus, Dataset
from tenants.usage.services.usage import usage_record
from tests.integration.tenants.asking import CORPORA, DATASETS, post
from tests.integration.tenants.content import CORPUS, audit_of, nothing_is_left, stored, upload
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_acme_scope")


def test_a_corpus_is_uploaded_listed_shown_and_deleted(
    world: World, upload_root: Path, django_capture_on_commit_callbacks: Any
) -> None:
    client = world.client(world.developer)
    made = post(client, CORPORA, name="news", file=upload("news.txt", CORPUS))
    assert made.status_code == 201, made.content
    assert made.json()["rows"] == 50
    assert made.json()["created_by"] == "developer"
    listed = client.get(CORPORA).json()
    assert [row["name"] for row in listed["results"]] == ["news"]
    one = f"{CORPORA}/{made.json()['id']}"
    assert client.get(one).json() == made.json()
    with django_capture_on_commit_callbacks(execute=True):
        assert client.delete(one).status_code == 204
    assert client.get(one).status_code == 404
    assert nothing_is_left(upload_root)


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


def test_a_big_file_comes_through_the_disk(world: World) -> None:
    content = "".join(f"line number {number} of a big corpus\n" for number in range(150_000))
    made = post(world.client(world.developer), CORPORA, name="big", file=upload("big.txt", content))
    assert made.status_code == 201, made.content
    assert made.json()["size_bytes"] == len(content)


def test_a_member_names_the_tenant(world: World) -> None:
    client = world.client(world.owner)
    answer = client.get("/api/v1/corpora")
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "tenant")
    assert client.get("/api/v1/corpora?tenant=acme").status_code == 200
    assert client.get("/api/v1/corpora?tenant=globex").status_code == 404


def test_the_platforms_corpora_are_for_staff(world: World) -> None:
    address = "/api/v1/platform/corpora"
    made = post(world.client(world.staff), address, name="books", file=upload("a.txt", CORPUS))
    assert made.status_code == 201
    assert Corpus.unscoped.get().tenant is None
    assert len(world.client(world.staff).get(address).json()["results"]) == 1
    assert world.client(world.owner).get(address).status_code == 403
    assert world.client(key=world.key()[1]).get(address).status_code == 401
    assert world.client().get(address).status_code == 401
    assert world.client(world.owner).get(CORPORA).json()["results"] == []


def test_a_tenant_shows_its_quota_and_use(world: World) -> None:
    usage_record(tenant=world.tenant, model_name="mood", inputs=1, tokens=9)
    post(world.client(world.developer), CORPORA, name="news", file=upload("a.txt", CORPUS))
    shown = world.client(world.viewer).get("/api/v1/tenants/acme").json()
    assert (shown["role"], shown["requests_today"], shown["storage_used_bytes"]) == ("viewer", 1, len(CORPUS))
    assert shown["quota"]["max_domains"] == 3
    listed = world.client(world.viewer).get("/api/v1/tenants").json()["results"]
    assert [(tenant["slug"], tenant["role"]) for tenant in listed] == [("acme", "viewer")]


def test_usage_is_listed_since_a_day(world: World) -> None:
    usage_record(tenant=world.tenant, model_name="mood", inputs=1, tokens=9)
    usage_record(tenant=world.tenant, model_name="mood", inputs=1, tokens=9, day=date(2020, 1, 1))
    client = world.client(key=world.key()[1])
    assert len(client.get("/api/v1/usage").json()["results"]) == 1
    assert len(client.get("/api/v1/usage?since=2020-01-01").json()["results"]) == 2
    answer = client.get("/api/v1/usage?since=yesterday")
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "since")


def test_usage_is_added_up_by_day_model_and_key_over_any_days(world: World) -> None:
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
    days = [(row["day"], row["requests"]) for row in found(f"{since}&by=day")]
    assert days == [("2026-03-03", 1), ("2026-03-01", 3)]
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


def test_a_huge_number_in_an_address_is_nothing(world: World) -> None:
    assert world.client(world.viewer).get(f"{CORPORA}/{10**30}").status_code == 404


def test_files_are_only_named_by_their_checksum(world: World, upload_root: Path) -> None:
    post(
        world.client(world.developer), CORPORA, name="../../etc/passwd", file=upload("../../evil.txt", CORPUS)
    )
    assert all(len(Path(name).name) == 64 for name in stored(upload_root))
    assert Corpus.unscoped.get().name == "../../etc/passwd"


def test_questions_are_uploaded_as_the_squad_has_them(world: World) -> None:
    content = "".join(
        json.dumps(
            {
                "question": f"what is {number}?",
                "context": f"it is {number}",
                "answers": {"text": [str(number)], "answer_start": [6]},
            }
        )
        + "\n"
        for number in range(40)
    )
    fields = {"task": "question_answering", "train": upload("train.jsonl", content)}
    made = post(world.client(world.developer), DATASETS, name="squad", **fields)
    assert made.status_code == 201, made.content
    shown = made.json()
    assert (shown["task"], shown["pairs"], shown["labels"]) == ("question_answering", True, ["start", "end"])


def test_labels_of_a_cell_are_parted_as_the_request_says(world: World) -> None:
    content = "text,labels\n" + "".join(f'text {number},"red; green"\n' for number in range(40))
    fields = {"task": "multilabel", "train": upload("train.csv", content)}
    client = world.client(world.developer)
    assert post(client, DATASETS, name="one", separator=";", **fields).json()["labels"] == ["green", "red"]
    refused = post(
        client, DATASETS, name="two", separator="x", **fields | {"train": upload("a.csv", content)}
    )
    assert refused.json()["error"]["param"] == "separator"


def test_only_an_owner_says_whether_fragment_counts_are_shared(world: World) -> None:
    address = "/api/v1/tenants/acme"
    change = {"shares_fragment_counts": False}
    assert world.client(world.developer).patch(address, change, format="json").status_code == 403
    answer = world.client(world.owner).patch(address, change, format="json")
    assert (answer.status_code, answer.json()["shares_fragment_counts"]) == (200, False)
    world.tenant.refresh_from_db()
    assert world.tenant.shares_fragment_counts is False
    assert audit_of(world.tenant)[0].verb == "tenant.set_sharing"


def test_only_an_owner_says_whether_answers_are_checked(world: World) -> None:
    address, change = "/api/v1/tenants/acme", {"checks_answers": False}
    assert world.client(world.developer).patch(address, change, format="json").status_code == 403
    answer = world.client(world.owner).patch(address, change, format="json").json()
    assert (answer["checks_answers"], answer["shares_fragment_counts"]) == (False, True)
    world.tenant.refresh_from_db()
    assert world.tenant.checks_answers is False
    assert audit_of(world.tenant)[0].verb == "tenant.set_answer_checks"
    assert not tenant_set_answer_checks(tenant=world.tenant, checks=False, actor=None)

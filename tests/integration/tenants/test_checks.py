"""What is made of uploads: small ones at once, large ones by a worker."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone
from pytest_django import Settings

from tenants.base.scope import platform_scope
from tenants.datasets.models import Corpus, Dataset, Upload, UploadCheck
from tenants.datasets.selectors.uploads import storage_used
from tenants.datasets.services import checks
from tenants.datasets.services.checks import check_run, checks_expire
from tenants.datasets.services.uploads import uploads_consume, uploads_expire
from tenants.usage.models import Quota
from tests.background import (
    CancelledLease,
    FixedLease,
    LostLease,
    background_job_of,
    lose_the_last_worker,
    run_background,
    run_background_of,
)
from tests.integration.tenants.content import CORPUS, audit_of, stored
from tests.integration.tenants.tus import CHECKS, ask, begun, send, sent
from tests.integration.world import World
from tests.unit.tenants.files import jsonl, texts

pytestmark = pytest.mark.usefixtures("in_acme_scope")

CONTENT = CORPUS.encode()


def test_stored_corpus_consumes_its_upload(committed: World, upload_root: Path) -> None:
    client = committed.client(committed.developer)
    answer = ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)})
    assert (answer.status_code, answer.json()["state"]) == (201, "stored"), answer.json()
    corpus = Corpus.unscoped.get(pk=answer.json()["corpus"])
    assert (corpus.name, corpus.rows, corpus.created_by) == ("news", 50, committed.developer)
    assert corpus.report["file"]["filename"] == "news.txt"
    with platform_scope():
        assert not Upload.unscoped.exists()
    assert stored(upload_root) == {f"{corpus.sha256[:2]}/{corpus.sha256}"}
    event = audit_of(committed.tenant).first()
    assert event is not None
    assert (event.verb, event.actor) == ("corpus.upload", committed.developer)


def test_key_stores_a_dataset_of_three_uploads(committed: World) -> None:
    _, plaintext = committed.key()
    client = committed.client(key=plaintext)
    files = {
        split: sent(
            client, jsonl(texts(20, start=start)).encode(), f"{split}.jsonl", address="/api/v1/uploads"
        )
        for split, start in (("train", 0), ("dev", 20), ("test", 40))
    }
    answer = client.post(
        "/api/v1/checks",
        {"kind": "dataset", "name": "mood", "task": "classification", "files": files},
        format="json",
    )
    assert answer.json()["state"] == "stored", answer.json()
    dataset = Dataset.unscoped.get(pk=answer.json()["dataset"])
    assert {split.split: split.rows for split in dataset.splits.all()} == dict.fromkeys(files, 20)


def test_check_without_storing_keeps_the_upload(world: World) -> None:
    client = world.client(world.developer)
    key = sent(client, CONTENT)
    answer = ask(client, kind="corpus", files={"file": key}, store=False).json()
    assert (answer["state"], answer["preview"]["report"]["rows"]) == ("passed", 50)
    with platform_scope():
        assert not Corpus.unscoped.exists()
    assert ask(client, kind="corpus", name="news", files={"file": key}).json()["state"] == "stored"


def test_invalid_rows_have_row_line_reason_and_content(world: World) -> None:
    bad = [*(json.dumps(row) for row in texts(20)), '{"text": "", "label": "good"}', "{no json", "[]"]
    client = world.client(world.developer)
    key = sent(client, "\n".join(bad).encode(), "mood.jsonl")
    answer = ask(client, kind="dataset", name="mood", task="classification", files={"train": key}).json()
    assert (answer["state"], answer["error"]["code"]) == ("refused", "empty_text")
    assert [(one["file"], one["row"], one["line"]) for one in answer["row_errors"]] == [
        ("mood.jsonl", 21, 21),
        ("mood.jsonl", 22, 22),
        ("mood.jsonl", 23, 23),
    ]
    assert "blank" in answer["row_errors"][0]["reason"]
    assert answer["row_errors"][0]["content"] == '{"text": "", "label": "good"}'
    assert Upload.unscoped.filter(pk=key).exists()


def test_invalid_rows_of_a_table_have_their_content(world: World) -> None:
    client = world.client(world.developer)
    table = "text,label\n" + "a text,good\nanother,bad\n" * 10 + "one,two,three\nlonely\n"
    key = sent(client, table.encode(), "mood.csv")
    answer = ask(client, kind="dataset", name="mood", task="classification", files={"train": key}).json()
    assert [(one["row"], one["content"]) for one in answer["row_errors"]] == [
        (21, "one,two,three"),
        (22, "lonely"),
    ]


def test_incomplete_upload_is_refused(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 100)
    send(client, address, b"a" * 40)
    refused = ask(client, kind="corpus", name="news", files={"file": address.rpartition("/")[2]})
    assert (refused.status_code, refused.json()["error"]["details"]) == (409, {"offset": 40, "size": 100})


def test_upload_of_another_user_is_not_found(world: World) -> None:
    key = sent(world.client(world.developer), CONTENT)
    refused = ask(world.client(world.owner), kind="corpus", name="news", files={"file": key})
    assert refused.status_code == 404


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"kind": "corpus", "files": {}}, "files"),
        ({"kind": "corpus", "files": {"train": str(UUID(int=1))}}, "files"),
        ({"kind": "dataset", "files": {"train": str(UUID(int=1))}}, "task"),
        ({"kind": "corpus", "files": {"file": "no-id"}}, "files.file"),
        ({"kind": "model", "files": {"file": str(UUID(int=1))}}, "kind"),
    ],
)
def test_check_with_wrong_fields_is_refused(world: World, fields: dict[str, Any], param: str) -> None:
    refused = ask(world.client(world.developer), **fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, param)


def test_upload_and_its_corpus_count_once_in_the_quota(committed: World) -> None:
    limit = len(CONTENT) + 100
    Quota.unscoped.update_or_create(tenant=committed.tenant, defaults={"max_storage_bytes": limit})
    client = committed.client(committed.developer)
    answer = ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)}).json()
    assert answer["state"] == "stored", answer
    assert storage_used(committed.tenant) == len(CONTENT)


def test_large_upload_waits_for_a_worker(committed: World, large: None, nudged: list[UUID]) -> None:
    client = committed.client(committed.developer)
    answer = ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)})
    assert (answer.status_code, answer.json()["state"]) == (202, "waiting")
    key = UUID(answer.json()["id"])
    assert nudged == [background_job_of(key).pk]
    run_background_of(key)
    assert client.get(f"{CHECKS}/{key}").json()["state"] == "stored"
    check_run(key)  # as of a worker that lost its lease
    with platform_scope():
        assert Corpus.unscoped.count() == 1


def test_checks_beyond_the_limit_of_a_tenant_are_refused(
    committed: World, large: None, nudged: list[UUID], settings: Settings
) -> None:
    settings.HMI_MAX_CHECKS = 2
    client = committed.client(committed.developer)
    key = sent(client, CONTENT)
    asked = {"kind": "corpus", "files": {"file": key}, "store": False}
    assert [ask(client, **asked).status_code for _ in range(2)] == [202, 202]
    refused = ask(client, **asked)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota_exceeded")
    assert refused.json()["error"]["details"] == {"quota": "checks", "limit": 2, "used": 2}
    run_background(nudged[0])
    assert ask(client, **asked).status_code == 202


def test_characters_that_postgres_cannot_store_are_replaced_in_errors(world: World) -> None:
    line = json.dumps({"te\0xt": "a", "lab\ud800el": "good"})
    client = world.client(world.developer)
    key = sent(client, f"{line}\n".encode() * 20, "mood.jsonl")
    answer = ask(client, kind="dataset", name="mood", task="classification", files={"train": key})
    assert (answer.status_code, answer.json()["state"]) == (201, "refused")
    error = answer.json()["error"]
    assert error["code"] == "missing_column"
    assert not set("\0\ud800") & set(error["message"] + "".join(error["details"]["found"]))


def test_crashed_inline_check_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: Any) -> None:
        raise ZeroDivisionError

    client = world.client(world.developer)
    key = sent(client, CONTENT)
    monkeypatch.setattr(checks, "corpus_validate", fails)
    with pytest.raises(ZeroDivisionError):
        ask(client, kind="corpus", files={"file": key}, store=False)
    check = UploadCheck.unscoped.get()
    assert check.error is not None
    assert (check.state, check.error["code"]) == ("refused", "internal")


def test_upload_of_two_splits_releases_its_bytes_once(committed: World) -> None:
    content = jsonl(texts(20)).encode()
    client = committed.client(committed.developer)
    key = sent(client, content, "mood.jsonl")
    sent(client, content, "other.jsonl")  # what would be freed too much
    Quota.unscoped.update_or_create(
        tenant=committed.tenant, defaults={"max_storage_bytes": len(content) * 5 // 2}
    )
    asked = {"kind": "dataset", "name": "mood", "task": "classification", "allow_leaks": True}
    answer = ask(client, files={"train": key, "dev": key}, **asked).json()
    assert (answer["state"], answer["error"]["code"]) == ("refused", "quota_exceeded"), answer
    assert storage_used(committed.tenant) == 2 * len(content)


def test_upload_used_meanwhile_is_not_stored_again(committed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = committed.client(committed.developer)
    key = sent(client, CONTENT)

    def late(uploads: Any) -> None:
        Upload.unscoped.filter(pk=key).delete()
        uploads_consume(uploads)

    monkeypatch.setattr(checks, "uploads_consume", late)
    answer = ask(client, kind="corpus", name="news", files={"file": key}).json()
    assert (answer["state"], answer["error"]["code"]) == ("refused", "conflict")
    with platform_scope():
        assert not Corpus.unscoped.exists()


def test_check_is_refused_when_the_last_worker_of_its_background_job_is_lost(
    committed: World, large: None, nudged: list[UUID]
) -> None:
    client = committed.client(committed.developer)
    key = UUID(ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)}).json()["id"])
    lose_the_last_worker(key)
    check = UploadCheck.unscoped.get()
    assert check.error is not None
    assert (check.state, check.error["code"]) == ("refused", "job_crashed")


@pytest.mark.parametrize(
    ("lease", "state", "code"), [(CancelledLease, "refused", "job_cancelled"), (LostLease, "running", "")]
)
def test_large_check_stops_when_its_job_is_cancelled_or_lost(
    committed: World, large: None, nudged: list[UUID], lease: type[FixedLease], state: str, code: str
) -> None:
    client = committed.client(committed.developer)
    key = UUID(ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)}).json()["id"])
    run_background_of(key, lease)
    check = UploadCheck.unscoped.get()
    assert (check.state, (check.error or {"code": ""})["code"]) == (state, code)
    with platform_scope():
        assert not Corpus.unscoped.exists()


def test_waiting_large_check_is_kept_after_the_inline_limit_was_raised(
    committed: World, large: None, nudged: list[UUID], settings: Settings
) -> None:
    client = committed.client(committed.developer)
    key = UUID(ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)}).json()["id"])
    settings.HMI_CHECK_INLINE_BYTES = 2 * len(CONTENT)
    UploadCheck.unscoped.update(created_at=timezone.now() - checks.INTERRUPTED_AFTER)
    checks_expire()
    run_background_of(key)
    assert UploadCheck.unscoped.get().state == "stored"


def test_upload_of_a_waiting_check_does_not_expire(committed: World, large: None, nudged: list[UUID]) -> None:
    client = committed.client(committed.developer)
    key = UUID(ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)}).json()["id"])
    Upload.unscoped.update(expires_at=timezone.now() - timedelta(hours=1))
    assert uploads_expire() == 0
    run_background_of(key)
    assert UploadCheck.unscoped.get().state == "stored"


def test_small_check_whose_web_process_ended_is_refused_as_interrupted(world: World) -> None:
    client = world.client(world.developer)
    ask(client, kind="corpus", files={"file": sent(client, CONTENT)}, store=False)
    UploadCheck.unscoped.update(state="running", created_at=timezone.now() - checks.INTERRUPTED_AFTER)
    checks_expire()
    check = UploadCheck.unscoped.get()
    assert check.error is not None
    assert (check.state, check.error["code"]) == ("refused", "internal")


def test_ended_checks_expire(world: World) -> None:
    client = world.client(world.developer)
    ask(client, kind="corpus", files={"file": sent(client, CONTENT)}, store=False)
    assert checks_expire() == 0
    UploadCheck.unscoped.update(finished_at=timezone.now() - timedelta(hours=49))
    assert checks_expire() == 1

"""What is made of uploads: small ones at once, large ones by a worker."""

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, connections
from django.utils import timezone
from pytest_django import Settings

from tenants.models import Corpus, Dataset, Quota, Upload, UploadCheck
from tenants.selectors import storage_used
from tenants.services import checks
from tenants.services.checked import Checked
from tenants.services.checks import check_run, checks_expire, checks_nudge_lost
from tenants.services.datasets import dataset_checked
from tenants.services.uploads import upload_create, upload_receive, uploads_expire, uploads_spend
from tenants.signals import check_requested
from tenants.storage import measure
from tests.integration.tenants.content import (
    CORPUS,
    audit_of,
    corpus_file,
    dataset_files,
    nothing_is_left,
    put_corpus,
    stored,
    stream,
)
from tests.integration.tenants.tus import CHECKS, TUS, UPLOADS, begun, send, sent
from tests.integration.world import World, make_world
from tests.unit.tenants.files import jsonl, texts

CONTENT = CORPUS.encode()


@pytest.fixture
def committed(transactional_db: None, upload_root: Path) -> World:
    """The small world, in transactions that really commit."""
    return make_world()


@pytest.fixture
def large(settings: Settings) -> None:
    """Nothing is small enough to be checked at once."""
    settings.HMI_CHECK_INLINE_BYTES = 0


@pytest.fixture
def nudged() -> Any:
    """The ids of checks that a worker was asked to take."""
    asked: list[UUID] = []

    def note(check_id: UUID, **_: Any) -> None:
        asked.append(check_id)

    receivers, check_requested.receivers = check_requested.receivers, []
    check_requested.connect(note)
    yield asked
    check_requested.receivers = receivers


def ask(client: Any, **fields: Any) -> Any:
    """Ask for a check."""
    return client.post(CHECKS, fields, format="json")


def test_a_corpus_of_an_upload_is_stored_and_the_upload_is_used_up(
    committed: World, upload_root: Path
) -> None:
    client = committed.client(committed.developer)
    answer = ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)})
    assert (answer.status_code, answer.json()["state"]) == (201, "stored"), answer.json()
    corpus = Corpus.unscoped.get(pk=answer.json()["corpus"])
    assert (corpus.name, corpus.rows, corpus.created_by) == ("news", 50, committed.developer)
    assert corpus.report["file"]["filename"] == "news.txt"
    assert not Upload.unscoped.exists()
    assert stored(upload_root) == {f"{corpus.sha256[:2]}/{corpus.sha256}"}
    event = audit_of(committed.tenant).first()
    assert event is not None
    assert (event.verb, event.actor) == ("corpus.upload", committed.developer)


def test_a_dataset_of_three_uploads_is_stored_by_a_key(committed: World) -> None:
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


def test_a_check_that_stores_nothing_leaves_the_upload_for_later(world: World) -> None:
    client = world.client(world.developer)
    key = sent(client, CONTENT)
    answer = ask(client, kind="corpus", files={"file": key}, stores=False).json()
    assert (answer["state"], answer["found"]["report"]["rows"]) == ("passed", 50)
    assert not Corpus.unscoped.exists()
    assert ask(client, kind="corpus", name="news", files={"file": key}).json()["state"] == "stored"


def test_bad_rows_are_told_with_row_line_reason_and_content(world: World) -> None:
    bad = jsonl([*texts(20), {"text": "", "label": "good"}, {"text": "x", "label": None}])
    client = world.client(world.developer)
    key = sent(client, bad.encode(), "mood.jsonl")
    answer = ask(client, kind="dataset", name="mood", task="classification", files={"train": key}).json()
    assert (answer["state"], answer["refusal"]["code"]) == ("refused", "empty_text")
    assert [(one["file"], one["row"], one["line"]) for one in answer["faults"]] == [
        ("mood.jsonl", 21, 21),
        ("mood.jsonl", 22, 22),
    ]
    assert "blank" in answer["faults"][0]["reason"]
    assert answer["faults"][0]["content"] == '{"text": "", "label": "good"}'
    assert Upload.unscoped.filter(pk=key).exists()


def test_rows_that_cannot_even_be_read_are_told_with_the_others(world: World) -> None:
    rows_of = [*(json.dumps(row) for row in texts(20)), "{no json", '{"text": "", "label": "good"}', "[]"]
    client = world.client(world.developer)
    key = sent(client, "\n".join(rows_of).encode(), "mood.jsonl")
    answer = ask(client, kind="dataset", name="mood", task="classification", files={"train": key}).json()
    assert [(one["row"], one["content"][:8]) for one in answer["faults"]] == [
        (21, "{no json"),
        (22, '{"text":'),
        (23, "[]"),
    ]
    table = "text,label\n" + "a text,good\nanother,bad\n" * 10 + "one,two,three\nlonely\n"
    key = sent(client, table.encode(), "mood.csv")
    answer = ask(client, kind="dataset", name="mood", task="classification", files={"train": key}).json()
    assert [(one["row"], one["content"]) for one in answer["faults"]] == [
        (21, "one,two,three"),
        (22, "lonely"),
    ]


def test_an_upload_that_is_not_complete_is_refused(world: World) -> None:
    client = world.client(world.developer)
    address = begun(client, 100)
    send(client, address, b"a" * 40)
    refused = ask(client, kind="corpus", name="news", files={"file": address.rpartition("/")[2]})
    assert (refused.status_code, refused.json()["error"]["details"]) == (409, {"offset": 40, "size": 100})


def test_what_another_uploaded_cannot_be_used(world: World) -> None:
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
def test_what_cannot_be_meant_is_refused(world: World, fields: dict[str, Any], param: str) -> None:
    refused = ask(world.client(world.developer), **fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, param)


def test_an_upload_and_what_is_made_of_it_do_not_count_twice(committed: World) -> None:
    limit = len(CONTENT) + 100
    Quota.unscoped.update_or_create(tenant=committed.tenant, defaults={"max_storage_bytes": limit})
    client = committed.client(committed.developer)
    answer = ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)}).json()
    assert answer["state"] == "stored", answer
    assert storage_used(committed.tenant) == len(CONTENT)


def test_a_large_upload_waits_for_a_worker(committed: World, large: None, nudged: list[UUID]) -> None:
    client = committed.client(committed.developer)
    answer = ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)})
    assert (answer.status_code, answer.json()["state"]) == (202, "waiting")
    key = UUID(answer.json()["id"])
    assert nudged == [key]
    check_run(check_id=key)
    assert client.get(f"{CHECKS}/{key}").json()["state"] == "stored"
    check_run(check_id=key)  # the message came twice
    assert Corpus.unscoped.count() == 1


@pytest.fixture
def checked(committed: World, large: None, nudged: list[UUID]) -> Callable[..., dict[str, Any]]:
    """What a worker makes of a check that the developer asks for."""
    client = committed.client(committed.developer)

    def check(**asked: Any) -> dict[str, Any]:
        key = ask(client, **asked).json()["id"]
        check_run(check_id=UUID(key))
        told: dict[str, Any] = client.get(f"{CHECKS}/{key}").json()
        return told

    return check


def spoil(path: Path) -> None:
    """Other content of the same length."""
    path.write_bytes(path.read_bytes()[::-1])


def mood(key: str, **more: Any) -> dict[str, Any]:
    return {"kind": "dataset", "task": "classification", "files": {"train": key}, **more}


def test_a_large_upload_that_passed_is_not_read_again_to_be_stored(
    committed: World, checked: Callable[..., dict[str, Any]], upload_root: Path
) -> None:
    client = committed.client(committed.developer)
    text, rows_of = sent(client, CONTENT), sent(client, jsonl(texts(40)).encode(), "mood.jsonl")
    corpus, dataset = {"kind": "corpus", "files": {"file": text}}, mood(rows_of)
    found = [checked(**asked, stores=False) for asked in (corpus, dataset)]
    assert [one["state"] for one in found] == ["passed", "passed"]
    for key in (text, rows_of):
        spoil(upload_root / ".arriving" / key)  # who read it again would find other rows, or none
    put_corpus(committed, "taken\n" * 20, name="news")
    assert checked(**corpus, name="news")["refusal"]["code"] == "conflict", "and then nothing is lost"
    stored_ones = [checked(**asked, name=name) for asked, name in ((corpus, "June"), (dataset, "mood"))]
    assert [one["state"] for one in stored_ones] == ["stored", "stored"]
    made = Corpus.unscoped.get(name="June"), Dataset.unscoped.get(name="mood")
    assert [one.report for one in made] == [one["found"]["report"] for one in found]
    assert corpus_file(made[0]).read_bytes() == CONTENT
    assert sum(split.rows for split in made[1].splits.all()) == 40
    for path in (corpus_file(made[0]), *dataset_files(made[1]).values()):
        assert measure(path).sha256 == path.name
    assert not any((upload_root / ".checked").iterdir())


def test_what_was_kept_is_not_taken_where_it_is_not_what_was_checked(
    committed: World, checked: Callable[..., dict[str, Any]], upload_root: Path
) -> None:
    client = committed.client(committed.developer)
    kept = upload_root / ".checked"
    harms: list[Callable[[Path], object]] = [spoil, Path.unlink]
    for number, harm in enumerate(harms):
        key = sent(client, CONTENT + b"%d\n" % number)
        checked(kind="corpus", files={"file": key}, stores=False)
        [file] = kept.glob("*/*")
        harm(file)
        assert checked(kind="corpus", name=f"n{number}", files={"file": key})["state"] == "stored"
        made = corpus_file(Corpus.unscoped.get(name=f"n{number}"))
        assert made.read_bytes() == CONTENT + b"%d\n" % number


def test_what_was_kept_is_not_taken_for_what_is_asked_otherwise(
    committed: World, checked: Callable[..., dict[str, Any]], upload_root: Path
) -> None:
    client = committed.client(committed.developer)
    lines = [{**row, "other": "a" if number % 2 else "b"} for number, row in enumerate(texts(40))]
    key = sent(client, jsonl(lines).encode(), "mood.jsonl")
    checked(**mood(key), stores=False)
    answer = checked(**mood(key, columns={"label": "other"}), name="mood")
    assert answer["state"] == "stored", answer
    assert Dataset.unscoped.get().labels == ["a", "b"]


def test_of_an_upload_is_kept_what_the_last_check_made_and_nothing_once_it_is_gone(
    committed: World, checked: Callable[..., dict[str, Any]], upload_root: Path
) -> None:
    client = committed.client(committed.developer)
    kept, key = upload_root / ".checked", sent(client, jsonl(texts(40)).encode(), "mood.jsonl")
    checked(**mood(key), stores=False)
    last = checked(**mood(key, separator=";"), stores=False)
    assert [folder.name for folder in kept.iterdir()] == [last["id"]]
    assert client.delete(f"{UPLOADS}/{key}", headers=TUS).status_code == 204
    assert not any(kept.iterdir())
    assert UploadCheck.unscoped.filter(kept__isnull=False).count() == 0
    orphan = kept / str(UUID(int=1))
    orphan.mkdir()
    checks_expire()
    assert orphan.exists(), "somebody may be about to write of it"
    os.utime(orphan, (0, 0))
    checks_expire()
    assert not orphan.exists()


def test_what_is_kept_is_storage_and_nothing_is_kept_beyond_it(
    committed: World, checked: Callable[..., dict[str, Any]], upload_root: Path
) -> None:
    client, tenant = committed.client(committed.developer), committed.tenant
    key = sent(client, jsonl(texts(40)).encode(), "mood.jsonl")
    before = storage_used(tenant)
    checked(**mood(key), stores=False)
    kept = sum(file.stat().st_size for file in (upload_root / ".checked").glob("*/*"))
    assert storage_used(tenant) - before == kept > 0
    Quota.unscoped.filter(tenant=tenant).update(max_storage_bytes=before + kept)
    assert checked(**mood(key), name="mood")["state"] == "stored", "what is kept is let go for it"
    other = sent(client, jsonl(texts(10)).encode(), "more.jsonl")
    Quota.unscoped.filter(tenant=tenant).update(max_storage_bytes=storage_used(tenant))
    assert checked(**mood(other), stores=False)["state"] == "passed"
    assert not any((upload_root / ".checked").iterdir())


def test_nothing_is_kept_of_what_was_deleted_while_it_was_read(
    committed: World,
    checked: Callable[..., dict[str, Any]],
    upload_root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = committed.client(committed.developer)
    key = sent(client, jsonl(texts(40)).encode(), "mood.jsonl")

    def slowly(**given: Any) -> Checked:
        made = dataset_checked(**given)
        assert client.delete(f"{UPLOADS}/{key}", headers=TUS).status_code == 204
        return made

    monkeypatch.setattr("tenants.services.checks.dataset_checked", slowly)
    assert checked(**mood(key), stores=False)["state"] == "passed"
    assert not any((upload_root / ".checked").glob("*"))


def test_a_verdict_by_older_rules_is_not_taken(
    committed: World, checked: Callable[..., dict[str, Any]], settings: Settings
) -> None:
    key = sent(committed.client(committed.developer), CONTENT)
    settings.HMI_CORPUS_MIN_WORDS = 0
    assert checked(kind="corpus", files={"file": key}, stores=False)["found"]["report"]["warnings"] == []
    settings.HMI_CORPUS_MIN_WORDS = 10**9
    assert checked(kind="corpus", name="June", files={"file": key})["state"] == "stored"
    assert len(Corpus.unscoped.get().report["warnings"]) == 1


def test_what_somebody_works_on_is_left_alone(committed: World, large: None, nudged: list[UUID]) -> None:
    client = committed.client(committed.developer)
    key = UUID(ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)}).json()["id"])
    other, number = connections["default"].copy(), key.int & (2**63 - 1)
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [number])
    check_run(check_id=key)
    assert UploadCheck.unscoped.get().state == "waiting"
    other.close()  # as when its process dies
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [number])  # until PostgreSQL has noticed
        cursor.execute("SELECT pg_advisory_unlock(%s)", [number])
    check_run(check_id=key)
    assert UploadCheck.unscoped.get().state == "stored"


def test_a_check_whose_message_was_lost_is_asked_for_again(
    committed: World, large: None, nudged: list[UUID]
) -> None:
    client = committed.client(committed.developer)
    key = UUID(ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)}).json()["id"])
    checks_nudge_lost()
    assert nudged == [key]
    UploadCheck.unscoped.update(nudged_at=timezone.now() - timedelta(seconds=31))
    checks_nudge_lost()
    assert nudged == [key, key]


def test_of_one_tenant_so_many_checks_wait_and_no_more(
    committed: World, large: None, nudged: list[UUID], settings: Settings
) -> None:
    settings.HMI_CHECKS_AT_ONCE = 2
    client = committed.client(committed.developer)
    key = sent(client, CONTENT)
    asked = {"kind": "corpus", "files": {"file": key}, "stores": False}
    assert [ask(client, **asked).status_code for _ in range(2)] == [202, 202]
    refused = ask(client, **asked)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota_exceeded")
    assert refused.json()["error"]["details"] == {"quota": "checks", "limit": 2, "used": 2}
    check_run(check_id=nudged[0])
    assert ask(client, **asked).status_code == 202


@pytest.mark.parametrize("odd", ["\0", "\ud800"])
def test_what_the_database_cannot_hold_is_replaced_in_what_is_told(world: World, odd: str) -> None:
    line = json.dumps({f"te{odd}xt": "a", f"lab{odd}el": "good"})
    client = world.client(world.developer)
    key = sent(client, f"{line}\n".encode() * 20, "mood.jsonl")
    answer = ask(client, kind="dataset", name="mood", task="classification", files={"train": key})
    assert (answer.status_code, answer.json()["state"]) == (201, "refused")
    assert odd not in json.dumps(answer.json()["refusal"], ensure_ascii=False)
    assert answer.json()["refusal"]["code"] == "missing_column"


def test_a_check_that_fails_while_the_request_waits_has_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**_: Any) -> None:
        raise ZeroDivisionError

    client = world.client(world.developer)
    key = sent(client, CONTENT)
    monkeypatch.setattr(checks, "corpus_checked", fails)
    with pytest.raises(ZeroDivisionError):
        ask(client, kind="corpus", files={"file": key}, stores=False)
    check = UploadCheck.unscoped.get()
    assert check.refusal is not None
    assert (check.state, check.refusal["code"]) == ("refused", "internal")


def test_an_upload_that_is_there_for_two_splits_frees_its_bytes_once(committed: World) -> None:
    content = jsonl(texts(20)).encode()
    client = committed.client(committed.developer)
    key = sent(client, content, "mood.jsonl")
    sent(client, content, "other.jsonl")  # what would be freed too much
    Quota.unscoped.update_or_create(
        tenant=committed.tenant, defaults={"max_storage_bytes": len(content) * 5 // 2}
    )
    asked = {"kind": "dataset", "name": "mood", "task": "classification", "allow_leaks": True}
    answer = ask(client, files={"train": key, "dev": key}, **asked).json()
    assert (answer["state"], answer["refusal"]["code"]) == ("refused", "quota_exceeded"), answer
    assert storage_used(committed.tenant) == 2 * len(content)


def test_what_was_used_by_another_meanwhile_is_not_stored_twice(
    committed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = committed.client(committed.developer)
    key = sent(client, CONTENT)

    def late(uploads: Any) -> None:
        Upload.unscoped.filter(pk=key).delete()
        uploads_spend(uploads)

    monkeypatch.setattr(checks, "uploads_spend", late)
    answer = ask(client, kind="corpus", name="news", files={"file": key}).json()
    assert (answer["state"], answer["refusal"]["code"]) == ("refused", "conflict")
    assert not Corpus.unscoped.exists()


def test_files_that_end_every_worker_are_given_up(committed: World, large: None, nudged: list[UUID]) -> None:
    client = committed.client(committed.developer)
    key = UUID(ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)}).json()["id"])
    UploadCheck.unscoped.update(state="running", attempts=3)
    check_run(check_id=key)
    check = UploadCheck.unscoped.get()
    assert check.refusal is not None
    assert (check.state, check.refusal["code"]) == ("refused", "internal")


def test_an_upload_does_not_expire_while_a_worker_is_to_read_it(
    committed: World, large: None, nudged: list[UUID]
) -> None:
    client = committed.client(committed.developer)
    key = UUID(ask(client, kind="corpus", name="news", files={"file": sent(client, CONTENT)}).json()["id"])
    Upload.unscoped.update(expires_at=timezone.now() - timedelta(hours=1))
    assert uploads_expire() == 0
    check_run(check_id=key)
    assert UploadCheck.unscoped.get().state == "stored"


def test_checks_that_ended_long_ago_are_forgotten(world: World) -> None:
    client = world.client(world.developer)
    ask(client, kind="corpus", files={"file": sent(client, CONTENT)}, stores=False)
    assert checks_expire() == 0
    UploadCheck.unscoped.update(finished_at=timezone.now() - timedelta(hours=49))
    assert checks_expire() == 1


def test_a_whole_file_of_a_form_becomes_an_upload(world: World) -> None:
    upload = upload_receive(
        tenant=world.tenant,
        filename="a.txt",
        size=len(CONTENT),
        stream=stream(CONTENT),
        actor=world.developer,
    )
    assert upload.is_complete


def test_nothing_is_left_of_a_tenant_that_threw_everything_away(committed: World, upload_root: Path) -> None:
    upload_create(tenant=committed.tenant, filename="a", size=0, actor=committed.developer)
    Upload.unscoped.update(expires_at=timezone.now())
    uploads_expire()
    assert nothing_is_left(upload_root)

"""What is kept of a large upload that passed, and when it is taken."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pytest_django import Settings

from tenants.base.scope import platform_scope
from tenants.datasets.models import Corpus, Dataset, UploadCheck
from tenants.datasets.selectors.uploads import storage_used
from tenants.datasets.services.check_results import CheckResult
from tenants.datasets.services.checks import check_run, checks_expire
from tenants.datasets.services.datasets import dataset_validate
from tenants.datasets.storage import digest_file
from tenants.usage.models import Quota
from tests.integration.tenants.content import CORPUS, corpus_file, dataset_files, put_corpus
from tests.integration.tenants.tus import CHECKS, TUS, UPLOADS, ask, sent
from tests.integration.world import World
from tests.unit.tenants.files import jsonl, texts

pytestmark = pytest.mark.usefixtures("in_acme_scope")

CONTENT = CORPUS.encode()


@pytest.fixture
def checked(committed: World, large: None, nudged: list[UUID]) -> Callable[..., dict[str, Any]]:
    """What a worker makes of a check that the developer asks for."""
    client = committed.client(committed.developer)

    def check(**asked: Any) -> dict[str, Any]:
        key = ask(client, **asked).json()["id"]
        check_run(key)
        told: dict[str, Any] = client.get(f"{CHECKS}/{key}").json()
        return told

    return check


def spoil(path: Path) -> None:
    """Other content of the same length."""
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[::-1])


def mood(key: str, **more: Any) -> dict[str, Any]:
    return {"kind": "dataset", "task": "classification", "files": {"train": key}, **more}


def test_saved_result_of_a_large_check_is_stored_without_reading_again(
    committed: World, checked: Callable[..., dict[str, Any]], upload_root: Path
) -> None:
    client = committed.client(committed.developer)
    text, rows_of = sent(client, CONTENT), sent(client, jsonl(texts(40)).encode(), "mood.jsonl")
    corpus, dataset = {"kind": "corpus", "files": {"file": text}}, mood(rows_of)
    found = [checked(**asked, store=False) for asked in (corpus, dataset)]
    assert [one["state"] for one in found] == ["passed", "passed"]
    for key in (text, rows_of):
        spoil(upload_root / ".uploads" / key)  # who read it again would find other rows, or none
    put_corpus(committed, "taken\n" * 20, name="news")
    assert checked(**corpus, name="news")["error"]["code"] == "conflict", "and then nothing is lost"
    stored_ones = [checked(**asked, name=name) for asked, name in ((corpus, "June"), (dataset, "mood"))]
    assert [one["state"] for one in stored_ones] == ["stored", "stored"]
    made = Corpus.unscoped.get(name="June"), Dataset.unscoped.get(name="mood")
    assert [one.report for one in made] == [one["preview"]["report"] for one in found]
    assert corpus_file(made[0]).read_bytes() == CONTENT
    assert sum(split.rows for split in made[1].splits.all()) == 40
    for path in (corpus_file(made[0]), *dataset_files(made[1]).values()):
        assert digest_file(path).sha256 == path.name
    assert not any((upload_root / ".check_results").iterdir())


def test_changed_saved_result_is_not_used(
    committed: World, checked: Callable[..., dict[str, Any]], upload_root: Path
) -> None:
    client = committed.client(committed.developer)
    kept = upload_root / ".check_results"
    harms: list[Callable[[Path], object]] = [spoil, Path.unlink]
    for number, harm in enumerate(harms):
        key = sent(client, CONTENT + b"%d\n" % number)
        checked(kind="corpus", files={"file": key}, store=False)
        [file] = kept.glob("*/*")
        harm(file)
        assert checked(kind="corpus", name=f"n{number}", files={"file": key})["state"] == "stored"
        made = corpus_file(Corpus.unscoped.get(name=f"n{number}"))
        assert made.read_bytes() == CONTENT + b"%d\n" % number


def test_saved_result_of_other_options_is_not_used(
    committed: World, checked: Callable[..., dict[str, Any]], upload_root: Path
) -> None:
    client = committed.client(committed.developer)
    lines = [{**row, "other": "a" if number % 2 else "b"} for number, row in enumerate(texts(40))]
    key = sent(client, jsonl(lines).encode(), "mood.jsonl")
    checked(**mood(key), store=False)
    answer = checked(**mood(key, columns={"label": "other"}), name="mood")
    assert answer["state"] == "stored", answer
    assert Dataset.unscoped.get().labels == ["a", "b"]


def test_upload_has_one_saved_result_and_none_after_its_deletion(
    committed: World, checked: Callable[..., dict[str, Any]], upload_root: Path
) -> None:
    client = committed.client(committed.developer)
    kept, key = upload_root / ".check_results", sent(client, jsonl(texts(40)).encode(), "mood.jsonl")
    checked(**mood(key), store=False)
    last = checked(**mood(key, separator=";"), store=False)
    assert [folder.name for folder in kept.iterdir()] == [last["id"]]
    assert client.delete(f"{UPLOADS}/{key}", headers=TUS).status_code == 204
    assert not any(kept.iterdir())
    with platform_scope():
        assert not UploadCheck.unscoped.filter(saved_files__isnull=False).exists()
    orphan = kept / str(UUID(int=1))
    orphan.mkdir()
    checks_expire()
    assert orphan.exists(), "somebody may be about to write of it"
    os.utime(orphan, (0, 0))
    checks_expire()
    assert not orphan.exists()


def test_saved_results_count_as_storage_within_the_quota(
    committed: World, checked: Callable[..., dict[str, Any]], upload_root: Path
) -> None:
    client, tenant = committed.client(committed.developer), committed.tenant
    key = sent(client, jsonl(texts(40)).encode(), "mood.jsonl")
    before = storage_used(tenant)
    checked(**mood(key), store=False)
    kept = sum(file.stat().st_size for file in (upload_root / ".check_results").glob("*/*"))
    assert storage_used(tenant) - before == kept > 0
    Quota.unscoped.filter(tenant=tenant).update(max_storage_bytes=before + kept)
    assert checked(**mood(key), name="mood")["state"] == "stored", "what is kept is let go for it"
    other = sent(client, jsonl(texts(10)).encode(), "more.jsonl")
    Quota.unscoped.filter(tenant=tenant).update(max_storage_bytes=storage_used(tenant))
    assert checked(**mood(other), store=False)["state"] == "passed"
    assert not any((upload_root / ".check_results").iterdir())


def test_no_result_is_saved_of_an_upload_deleted_during_the_check(
    committed: World,
    checked: Callable[..., dict[str, Any]],
    upload_root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = committed.client(committed.developer)
    key = sent(client, jsonl(texts(40)).encode(), "mood.jsonl")

    def slowly(**given: Any) -> CheckResult:
        made = dataset_validate(**given)
        assert client.delete(f"{UPLOADS}/{key}", headers=TUS).status_code == 204
        return made

    monkeypatch.setattr("tenants.datasets.services.checks.dataset_validate", slowly)
    assert checked(**mood(key), store=False)["state"] == "passed"
    assert not any((upload_root / ".check_results").glob("*"))


def test_saved_result_of_older_rules_is_not_used(
    committed: World, checked: Callable[..., dict[str, Any]], settings: Settings
) -> None:
    key = sent(committed.client(committed.developer), CONTENT)
    settings.HMI_CORPUS_MIN_WORDS = 0
    assert checked(kind="corpus", files={"file": key}, store=False)["preview"]["report"]["warnings"] == []
    settings.HMI_CORPUS_MIN_WORDS = 10**9
    assert checked(kind="corpus", name="June", files={"file": key})["state"] == "stored"
    assert len(Corpus.unscoped.get().report["warnings"]) == 1

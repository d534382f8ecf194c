"""Uploads become rows and files: all of it or nothing."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from tenants.base.errors import ErrorCode
from tenants.base.scope import tenant_scope
from tenants.datasets.models import DatasetSplit
from tenants.datasets.selectors.uploads import corpora_of, storage_used
from tenants.datasets.services.corpora import corpus_delete, corpus_preview
from tenants.datasets.services.datasets import dataset_delete, dataset_preview
from tenants.datasets.storage import UploadStore
from tenants.usage.models import Quota
from tests.integration.tenants.content import (
    CORPUS,
    audit_of,
    corpus_file,
    dataset_files,
    nothing_is_left,
    put_corpus,
    put_dataset,
    rows,
    stored,
    stream,
)
from tests.integration.world import World
from tests.unit.tenants.files import refused

pytestmark = pytest.mark.usefixtures("in_acme_scope")


def test_corpus_is_stored_once_in_canonical_form(world: World, upload_root: Path) -> None:
    corpus = put_corpus(world, "\ufeff" + CORPUS.replace("\n", "\r\n"))
    assert corpus_file(corpus).read_text() == CORPUS
    digest = hashlib.sha256(CORPUS.encode()).hexdigest()
    assert stored(upload_root) == {f"{digest[:2]}/{digest}"}
    found = corpora_of(world.tenant).get()
    assert (found.sha256, found.size_bytes, found.rows, found.words) == (digest, len(CORPUS), 50, 300)
    assert found.created_by == world.developer
    assert found.report["file"]["filename"] == "news.txt"
    assert found.report["file"]["sha256"] != digest
    event = audit_of(world.tenant).first()
    assert event is not None
    assert (event.verb, event.subject, event.actor) == ("corpus.upload", "news", world.developer)


def test_a_dataset_is_stored_with_three_splits(world: World, upload_root: Path) -> None:
    dataset = put_dataset(world)
    assert (dataset.labels, dataset.report["rows"]) == (["bad", "good"], 40)
    files = dataset_files(dataset)
    assert set(files) == {"train", "dev", "test"}
    for split in DatasetSplit.objects.for_tenant(world.tenant):
        content = files[split.split].read_bytes()
        assert hashlib.sha256(content).hexdigest() == split.sha256
        assert (len(content), content.count(b"\n")) == (split.size_bytes, split.rows)
    assert len(stored(upload_root)) == 3
    assert storage_used(world.tenant) == sum(path.stat().st_size for path in files.values())


def test_a_refused_corpus_leaves_nothing(world: World, upload_root: Path) -> None:
    content, code = CORPUS.encode() + b"x" * (9 << 20), ErrorCode.LINE_TOO_LONG
    refused(code, lambda: put_corpus(world, content))
    refused(code, lambda: corpus_preview(stream=stream(content), filename="a.txt"))
    assert nothing_is_left(upload_root)


BAD_DATASETS: list[tuple[str | bytes, ErrorCode]] = [
    (rows(2000).encode() + b'{"text": "caf\xe9", "label": "good"}\n', ErrorCode.INVALID_ENCODING),
    (rows(40).replace("good", "bad"), ErrorCode.ONE_LABEL),
]


@pytest.mark.parametrize(("content", "code"), BAD_DATASETS)
def test_a_refused_dataset_leaves_nothing(
    world: World, upload_root: Path, content: str | bytes, code: ErrorCode
) -> None:
    error = refused(code, lambda: put_dataset(world, content))
    files = {"train": ("train.jsonl", stream(content))}
    assert (
        refused(code, lambda: dataset_preview(task="classification", files=files)).to_json()
        == error.to_json()
    )
    assert nothing_is_left(upload_root)


def test_dataset_with_unknown_task_or_split_is_refused(world: World, upload_root: Path) -> None:
    assert refused(ErrorCode.INVALID_FIELD, lambda: put_dataset(world, task="translation")).param == "task"
    files = {"../../evil": ("a.jsonl", stream(rows(40)))}
    refused(ErrorCode.INVALID_FIELD, lambda: put_dataset(world, files=files))
    refused(ErrorCode.MISSING_FIELD, lambda: put_dataset(world, files={}))
    refused(ErrorCode.MISSING_FIELD, lambda: put_corpus(world, name=" "))
    assert nothing_is_left(upload_root)


@pytest.mark.parametrize("name", ["a\nb", "x" * 101, "a\0", "\ud800"])
def test_name_that_cannot_be_shown_is_refused(world: World, upload_root: Path, name: str) -> None:
    assert refused(ErrorCode.INVALID_FIELD, lambda: put_dataset(world, name=name)).param == "name"
    assert refused(ErrorCode.INVALID_FIELD, lambda: put_corpus(world, name=name)).param == "name"
    assert nothing_is_left(upload_root)


def test_file_above_the_size_limit_is_refused(world: World, upload_root: Path, settings: Any) -> None:
    settings.HMI_UPLOAD_MAX_BYTES = 100
    refused(ErrorCode.FILE_TOO_LARGE, lambda: put_corpus(world))
    assert nothing_is_left(upload_root)


def test_second_upload_with_a_name_is_a_conflict(world: World, upload_root: Path) -> None:
    first = put_corpus(world)
    before = stored(upload_root)
    refused(ErrorCode.CONFLICT, lambda: put_corpus(world, CORPUS + "and more\n"))
    assert stored(upload_root) == before
    assert corpora_of(world.tenant).get() == first
    refused(ErrorCode.CONFLICT, lambda: put_corpus(world))
    assert corpus_file(first).read_text() == CORPUS
    put_dataset(world)
    refused(ErrorCode.CONFLICT, lambda: put_dataset(world))
    assert len(stored(upload_root)) == 4


def test_upload_above_the_quota_is_refused(world: World, upload_root: Path) -> None:
    Quota.unscoped.filter(tenant=world.tenant).update(max_storage_bytes=len(CORPUS) - 1)
    error = refused(ErrorCode.QUOTA_EXCEEDED, lambda: put_corpus(world))
    assert error.details == {
        "quota": "bytes of storage",
        "limit": len(CORPUS) - 1,
        "used": 0,
        "asked": len(CORPUS),
    }
    refused(ErrorCode.QUOTA_EXCEEDED, lambda: put_dataset(world))
    assert nothing_is_left(upload_root)
    Quota.unscoped.filter(tenant=world.tenant).update(max_storage_bytes=len(CORPUS))
    put_corpus(world)


def test_full_disk_while_storing_leaves_no_row(
    world: World, upload_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = UploadStore.add

    def full(store: UploadStore, source: Path, measured: Any) -> Path:
        if source.name == "test.jsonl":
            raise OSError(28, "No space left on device")
        return place(store, source, measured)

    monkeypatch.setattr(UploadStore, "add", full)
    refused(ErrorCode.OUT_OF_DISK, lambda: put_dataset(world))
    assert nothing_is_left(upload_root)


def test_preview_has_the_report_of_the_upload_and_stores_nothing(world: World, upload_root: Path) -> None:
    files = {"train": ("C:\\data\\train\n.jsonl", stream(rows(40)))}
    shown = dataset_preview(task="classification", files=files)
    assert nothing_is_left(upload_root)
    assert shown["rows"]["train"][0] == {"text": "text number 0", "label": "bad", "cut": False}
    assert shown["report"]["files"]["train"]["filename"] == "train.jsonl"
    stored_report = put_dataset(world).report
    assert {key: value for key, value in shown["report"].items() if key != "files"} == {
        key: value for key, value in stored_report.items() if key != "files"
    }
    assert corpus_preview(stream=stream(CORPUS), filename="a")["rows"][0] == "line number 0 of the corpus"


def test_deletion_removes_a_file_that_no_other_row_has(
    world: World, upload_root: Path, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    mine, theirs = put_corpus(world), put_corpus(world, tenant=world.other)
    dataset = put_dataset(world)
    with django_capture_on_commit_callbacks(execute=True):
        corpus_delete(corpus=mine, actor=world.owner)
        dataset_delete(dataset=dataset, actor=world.owner)
    assert stored(upload_root) == {f"{theirs.sha256[:2]}/{theirs.sha256}"}
    with django_capture_on_commit_callbacks(execute=True), tenant_scope(world.other):
        corpus_delete(corpus=theirs, actor=world.stranger)
    assert nothing_is_left(upload_root)

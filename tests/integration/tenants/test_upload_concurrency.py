"""Uploads and deletions at the same time: no file is lost, none is left over."""

import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tenants.base.errors import HmiError
from tenants.datasets.models import Corpus
from tenants.datasets.services.corpora import corpus_delete
from tenants.datasets.services.stored_files import files_delete_unused
from tenants.datasets.storage import UploadStore, stored_path
from tests.integration.tenants.content import CORPUS, corpus_file, put_corpus, stored
from tests.integration.world import make_world

pytestmark = pytest.mark.usefixtures("in_platform_scope")


def together(count: int, act: Any) -> list[Any]:
    """Run it in so many threads at once; results or errors in any order."""
    results: list[Any] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        try:
            results.append(act(number))
        except HmiError as error:
            results.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_concurrent_uploads_with_one_name_store_one(transactional_db: None, upload_root: Path) -> None:
    world = make_world()
    results = together(4, lambda number: put_corpus(world, CORPUS + f"number {number}\n" * (number % 2)))
    made = [result for result in results if isinstance(result, Corpus)]
    assert len(made) == 1
    assert {str(getattr(error, "code", error)) for error in results if error is not made[0]} == {"conflict"}
    assert stored(upload_root) == {f"{made[0].sha256[:2]}/{made[0].sha256}"}


def test_file_stays_when_one_row_is_deleted_while_another_is_stored(
    transactional_db: None, upload_root: Path
) -> None:
    world = make_world()
    for _ in range(5):
        old = put_corpus(world)

        def act(number: int, old: Corpus = old) -> Any:
            if number:
                return corpus_delete(corpus=old, actor=None)
            return put_corpus(world, tenant=world.other, name="same")

        _, new = sorted(together(2, act), key=lambda result: isinstance(result, Corpus))
        assert isinstance(new, Corpus)
        assert stored_path(new.sha256).read_text() == CORPUS
        corpus_delete(corpus=new, actor=None)
        assert not stored(upload_root)


def test_file_is_not_removed_between_its_rename_and_the_commit(
    transactional_db: None, upload_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    place = UploadStore.add
    removers: list[threading.Thread] = []

    def remove(digest: str) -> None:
        files_delete_unused([digest])
        connection.close()

    def place_and_remove(store: UploadStore, source: Path, measured: Any) -> Path:
        placed = place(store, source, measured)
        removers.append(threading.Thread(target=remove, args=(measured.sha256,)))
        removers[0].start()
        removers[0].join(timeout=0.5)
        return placed

    monkeypatch.setattr(UploadStore, "add", place_and_remove)
    corpus = put_corpus(world)
    removers[0].join()
    assert corpus_file(corpus).read_text() == CORPUS

"""Files of the content-addressed store: receive, store with their rows, delete when no row refers to them."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from django.conf import settings
from django.db import transaction

from tenants.accounts.models import Tenant
from tenants.base.advisory_lock import advisory_xact_lock
from tenants.base.disk import free_space_check
from tenants.base.scope import platform_scope
from tenants.datasets.append_only_file import write_stream
from tenants.datasets.formats.lines import Source
from tenants.datasets.models import Corpus, DatasetSplit, File, Upload, UploadCheck
from tenants.datasets.storage import (
    FileDigest,
    Readable,
    StoredFile,
    copy_verified,
    upload_store,
    verify_file,
)


def receive_file(
    stream: Readable | StoredFile, workspace: Path, *, filename: str, key: str, copy: bool = False
) -> tuple[Source, dict[str, Any]]:
    """Write a stream to the workspace; returns the file, and its part of the validation report.

    A file that is already on disk is read where it is. With ``copy`` it is copied, so that it may be moved.
    Raises ``file_too_large``, ``corrupt_artifact`` and ``out_of_disk``.
    """
    name, path = clean_filename(filename), workspace / f"{key}.upload"
    if isinstance(stream, StoredFile):
        digest = stream.digest
        free_space_check(workspace, digest.size)  # for the copy, or for the canonical form
        if copy:
            copy_verified(stream, path, name=name)
        else:
            verify_file(stream, name=name)
            path = stream.path
        source = Source(path, name, stream.on_read)
    else:
        digest = write_stream(stream, path, name=name, limit=settings.HMI_UPLOAD_MAX_BYTES)
        source = Source(path, name)
    return source, {"filename": name, "sha256": digest.sha256, "size_bytes": digest.size}


def clean_filename(filename: str) -> str:
    """The last part of the name, printable, at most 150 characters. It is shown and stored, never opened."""
    name = PurePosixPath(filename.replace("\\", "/")).name
    return "".join(character for character in name if character.isprintable())[-150:] or "upload"


@contextmanager
def store_files(files: Mapping[Path, FileDigest]) -> Iterator[None]:
    """A transaction in which the caller creates the rows of these files. Moves the files to the store.

    On failure neither rows nor files remain. The files are renamed before the commit, so that no committed
    row lacks its file. It must be the outermost transaction: a later rollback would leave files.
    """
    store = upload_store()
    digests = {digest.sha256 for digest in files.values()}
    try:
        with transaction.atomic(durable=True):
            _lock(digests)
            yield
            for path, digest in files.items():
                store.add(path, digest)
    except BaseException:
        files_delete_unused(digests)
        raise


def files_delete_unused(digests: Iterable[str], *, ignoring: Tenant | None = None) -> None:
    """Delete the files to which no row refers, rows of the tenant ``ignoring`` left aside.

    Uploads of the same content wait until this is done.
    """
    store = upload_store()
    for digest in sorted(set(digests)):
        with transaction.atomic():
            _lock([digest])
            if not _is_referenced(digest, ignoring):
                store.discard(digest)


def tenant_files_delete(*, tenant: Tenant) -> None:
    """Delete all stored files of a tenant, except those that other tenants have uploaded too."""
    for rows in (model.objects.for_tenant(tenant) for model in (Corpus, DatasetSplit, File)):
        files_delete_unused(rows.order_by().values_list("sha256", flat=True), ignoring=tenant)
    for key in Upload.objects.for_tenant(tenant).values_list("pk", flat=True):
        upload_store().upload_path(key).unlink(missing_ok=True)
    for key in UploadCheck.objects.for_tenant(tenant).values_list("pk", flat=True):
        shutil.rmtree(upload_store().check_result_folder(key), ignore_errors=True)


def _is_referenced(digest: str, ignoring: Tenant | None) -> bool:
    """Tenants who uploaded the same content share one file."""
    corpora = Corpus.unscoped.filter(sha256=digest)
    splits = DatasetSplit.unscoped.filter(sha256=digest)
    files = File.unscoped.filter(sha256=digest)
    if ignoring is not None:
        corpora = corpora.exclude(tenant=ignoring)
        splits = splits.exclude(dataset__tenant=ignoring)
        files = files.exclude(tenant=ignoring)
    with platform_scope():
        return corpora.exists() or splits.exists() or files.exists()


def _lock(digests: Iterable[str]) -> None:
    """Lock these contents until the transaction ends. Sorted, so that there is no deadlock."""
    for digest in sorted(digests):
        advisory_xact_lock(f"file {digest}")

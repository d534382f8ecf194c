"""How an upload becomes rows and files: all of it or nothing."""

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from tenants.accounts.models import Tenant
from tenants.base.scope import platform_scope
from tenants.datasets.formats.lines import Source
from tenants.datasets.models import Corpus, DatasetSplit, File, UploadCheck
from tenants.datasets.storage import Kept, Measured, Readable, copied, receive, upload_store, verify


def receive_upload(
    stream: Readable | Kept, workspace: Path, *, filename: str, key: str, copies: bool = False
) -> tuple[Source, dict[str, Any]]:
    """Stream an upload to the workspace; where it lies, and what the report says. What is on disk is read
    where it is, unless ``copies``: what is to be moved must be the workspace's own.

    Raises ``file_too_large`` and ``corrupt_artifact``.
    """
    name, path = clean_filename(filename), workspace / f"{key}.upload"
    if not isinstance(stream, Kept):
        measured = receive(stream, path, name=name, limit=settings.HMI_UPLOAD_MAX_BYTES)
    elif copies:
        copied(stream, path, name=name)
        measured = stream.measured
    else:
        verify(stream, name=name)
        path, measured = stream.path, stream.measured
    return Source(path, name), {"filename": name, "sha256": measured.sha256, "size_bytes": measured.size}


def clean_filename(filename: str) -> str:
    """The last part of the name, printable and not too long: it is shown and stored, never opened."""
    name = PurePosixPath(filename.replace("\\", "/")).name
    return "".join(character for character in name if character.isprintable())[-150:] or "upload"


@contextmanager
def filed(files: Mapping[Path, Measured]) -> Iterator[None]:
    """One transaction in which rows that refer to these files are made; then the files go to their place.

    When anything fails, neither rows nor files remain. The files are renamed before the commit, so that no
    committed row lacks its file. The transaction must be the outermost: a later roll-back would leave files.
    """
    store = upload_store()
    digests = {measured.sha256 for measured in files.values()}
    try:
        with transaction.atomic(durable=True):
            _lock(digests)
            yield
            for path, measured in files.items():
                store.place(path, measured)
    except BaseException:
        files_release(digests)
        raise


def files_release(digests: Iterable[str], *, but_of: Tenant | None = None) -> None:
    """Remove the files that no row refers to any more, or none but those of a tenant that leaves. Uploads of
    the same content wait meanwhile."""
    store = upload_store()
    for digest in sorted(set(digests)):
        with transaction.atomic():
            _lock([digest])
            if not _is_referred_to(digest, but_of):
                store.discard(digest)


def _is_referred_to(digest: str, but_of: Tenant | None) -> bool:
    """By anybody else: tenants who uploaded the same share the file."""
    corpora = Corpus.unscoped.filter(sha256=digest)
    splits = DatasetSplit.unscoped.filter(sha256=digest)
    files = File.unscoped.filter(sha256=digest)
    if but_of is not None:
        corpora = corpora.exclude(tenant=but_of)
        splits = splits.exclude(dataset__tenant=but_of)
        files = files.exclude(tenant=but_of)
    with platform_scope():
        return corpora.exists() or splits.exists() or files.exists()


def _lock(digests: Iterable[str]) -> None:
    """Hold these contents until the transaction ends; in one order, so that nobody waits in a circle."""
    with connection.cursor() as cursor:
        for digest in sorted(digests):
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [int(digest[:15], 16)])


def tenant_files_delete(*, tenant: Tenant) -> None:
    """Delete the files of its corpora and datasets, and those kept as they were sent, but what others have
    uploaded, too."""
    for rows in (model.objects.for_tenant(tenant) for model in (Corpus, DatasetSplit, File)):
        files_release(rows.order_by().values_list("sha256", flat=True), but_of=tenant)
    for key in UploadCheck.objects.for_tenant(tenant).values_list("pk", flat=True):
        shutil.rmtree(upload_store().checked(key), ignore_errors=True)

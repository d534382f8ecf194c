"""Uploading and deleting corpora."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from tenants.dependents import has_dependents
from tenants.errors import ErrorCode, HmiError
from tenants.formats.corpus import CorpusDraft, corpus_report, draft_corpus
from tenants.models import Corpus, Tenant
from tenants.services.audit import Actor, audit_record, person
from tenants.services.intake import filed, files_release, take_in
from tenants.services.names import clean_name
from tenants.services.quotas import quota_check_storage, quota_lock
from tenants.storage import Kept, Measured, Readable, measure, upload_store


def corpus_upload(
    *,
    tenant: Tenant | None,
    name: str,
    stream: Readable | Kept,
    filename: str,
    actor: Actor = None,
    frees_bytes: int = 0,
    then: Callable[[Corpus], object] = lambda _: None,
) -> Corpus:
    """Check and store a corpus of the tenant (of the platform, when there is none).

    In the transaction that stores it ``then`` is called, which frees so many bytes of the quota.
    Raises a typed error that says what is wrong with the file and where, ``conflict`` when the name is taken,
    ``quota_exceeded``; then neither row nor file remains.
    """
    cleaned = clean_name(name)
    with upload_store().workspace() as workspace:
        source, received = take_in(stream, workspace, filename=filename, key="corpus")
        draft = draft_corpus(file=source, workspace=workspace)
        measured = measure(draft.path)
        with filed({draft.path: measured}):
            _check_quota(tenant, measured, frees_bytes)
            corpus = _corpus_insert(tenant, cleaned, draft, measured, received, actor)
            then(corpus)
            return corpus


def corpus_preview(*, stream: Readable | Kept, filename: str) -> dict[str, Any]:
    """What an upload would say: ``report`` and the first ``rows``. Nothing is stored."""
    with upload_store().workspace() as workspace:
        source, received = take_in(stream, workspace, filename=filename, key="corpus")
        draft = draft_corpus(file=source, workspace=workspace)
        return {"report": _report(draft, received), "rows": draft.preview}


def corpus_delete(*, corpus: Corpus, actor: Actor) -> None:
    """Delete a corpus, and its file unless other uploads share it. In use: ``has_dependents``."""
    with transaction.atomic():
        audit_record(verb="corpus.delete", subject=corpus.name, tenant=corpus.tenant, actor=actor)
        digest = corpus.sha256
        try:
            corpus.delete()
        except ProtectedError as error:
            standing = sorted(error.protected_objects, key=lambda row: row.pk)
            message = f"The corpus {corpus.name!r} is in use and stays"
            raise has_dependents(message, standing, param="corpus") from error
        transaction.on_commit(lambda: files_release([digest]))


def _report(draft: CorpusDraft, received: dict[str, Any]) -> dict[str, Any]:
    return corpus_report(draft, least_words=settings.HMI_CORPUS_MIN_WORDS) | {"file": received}


def _check_quota(tenant: Tenant | None, measured: Measured, frees_bytes: int) -> None:
    if tenant is not None:
        quota_lock(tenant=tenant)
        quota_check_storage(tenant=tenant, adding_bytes=measured.size, beside_uploads=-frees_bytes)


def _corpus_insert(
    tenant: Tenant | None,
    name: str,
    draft: CorpusDraft,
    measured: Measured,
    received: dict[str, Any],
    actor: Actor,
) -> Corpus:
    corpus = Corpus(
        tenant=tenant,
        name=name,
        sha256=measured.sha256,
        size_bytes=measured.size,
        rows=draft.rows,
        words=draft.words.total,
        report=_report(draft, received),
        created_by=person(actor),
    )
    try:
        with transaction.atomic():
            corpus.save(force_insert=True)
    except IntegrityError as error:
        raise HmiError(
            ErrorCode.CONFLICT, f"There is already a corpus with the name {name!r}.", param="name"
        ) from error
    audit_record(
        verb="corpus.upload", subject=name, tenant=tenant, actor=actor, detail={"sha256": measured.sha256}
    )
    return corpus

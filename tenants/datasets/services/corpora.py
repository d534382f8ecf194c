"""Uploading and deleting corpora."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from tenants.accounts.models import Tenant
from tenants.accounts.services.tenants import clean_name
from tenants.audit.services import Actor, audit_record, person
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.hooks import has_dependents
from tenants.datasets.formats.corpus import corpus_report, draft_corpus
from tenants.datasets.models import Corpus
from tenants.datasets.services.check_results import Checked
from tenants.datasets.services.intake import filed, files_release, receive_upload
from tenants.datasets.storage import Kept, Readable, measure, upload_store
from tenants.usage.services.quotas import quota_check_storage, quota_lock

CORPUS: Final = "corpus"


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
        checked = corpus_checked(workspace=workspace, stream=stream, filename=filename)
        return corpus_store(
            tenant=tenant, name=cleaned, checked=checked, actor=actor, frees_bytes=frees_bytes, then=then
        )


def corpus_checked(*, workspace: Path, stream: Readable | Kept, filename: str) -> Checked:
    """Check a file, and write the canonical one to the workspace. Raises a typed error that says what is
    wrong with the file and where."""
    source, received = receive_upload(stream, workspace, filename=filename, key="corpus")
    draft = draft_corpus(file=source, workspace=workspace)
    report = corpus_report(draft, least_words=settings.HMI_CORPUS_MIN_WORDS) | {"file": received}
    return Checked({"report": report, "rows": draft.preview}, {CORPUS: (draft.path, measure(draft.path))})


def corpus_store(
    *,
    tenant: Tenant | None,
    name: str,
    checked: Checked,
    actor: Actor,
    frees_bytes: int,
    then: Callable[[Corpus], object],
) -> Corpus:
    """The half of ``corpus_upload`` that is left when a file was checked."""
    with filed(dict(checked.files.values())):
        if tenant is not None:
            quota_lock(tenant=tenant)
            quota_check_storage(tenant=tenant, adding_bytes=checked.size, beside_uploads=-frees_bytes)
        corpus = _corpus_insert(tenant, name, checked, actor)
        then(corpus)
        return corpus


def corpus_preview(*, stream: Readable | Kept, filename: str) -> dict[str, Any]:
    """What an upload would say: ``report`` and the first ``rows``. Nothing is stored."""
    with upload_store().workspace() as workspace:
        return corpus_checked(workspace=workspace, stream=stream, filename=filename).found


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


def _corpus_insert(tenant: Tenant | None, name: str, checked: Checked, actor: Actor) -> Corpus:
    _, measured = checked.files[CORPUS]
    corpus = Corpus(
        tenant=tenant,
        name=name,
        sha256=measured.sha256,
        size_bytes=measured.size,
        rows=checked.report["rows"],
        words=checked.report["words"],
        report=checked.report,
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

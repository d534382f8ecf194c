"""Upload, preview, renaming and deletion of corpora."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from tenants.accounts.models import Tenant
from tenants.accounts.services.tenants import clean_name
from tenants.audit.details import change
from tenants.audit.services import Actor, audit_record, person
from tenants.base.errors import ErrorCode, HmiError, has_dependents
from tenants.datasets.formats.corpus import corpus_report, draft_corpus
from tenants.datasets.models import Corpus
from tenants.datasets.services.check_results import CheckResult
from tenants.datasets.services.stored_files import files_delete_unused, receive_file, store_files
from tenants.datasets.storage import Readable, StoredFile, digest_file, upload_store
from tenants.usage.services.quotas import quota_check_storage, quota_lock

CORPUS: Final = "corpus"


def corpus_upload(
    *,
    tenant: Tenant | None,
    name: str,
    stream: Readable | StoredFile,
    filename: str,
    actor: Actor = None,
) -> Corpus:
    """Check and store a corpus of the tenant, or of the platform if ``tenant`` is None.

    Raises the typed error of an invalid file, ``conflict`` if the name is taken, ``quota_exceeded``. Then
    neither row nor file remains.
    """
    cleaned = clean_name(name)
    with upload_store().workspace() as workspace:
        result = corpus_validate(workspace=workspace, stream=stream, filename=filename)
        return corpus_store(tenant=tenant, name=cleaned, result=result, actor=actor)


def corpus_validate(*, workspace: Path, stream: Readable | StoredFile, filename: str) -> CheckResult:
    """Check a file and write its canonical form to the workspace. Errors as ``corpus_upload``."""
    source, received = receive_file(stream, workspace, filename=filename, key="corpus")
    draft = draft_corpus(file=source, workspace=workspace)
    report = corpus_report(draft, min_words=settings.HMI_CORPUS_MIN_WORDS) | {"file": received}
    return CheckResult(
        {"report": report, "rows": draft.preview}, {CORPUS: (draft.path, digest_file(draft.path))}
    )


def corpus_store(
    *,
    tenant: Tenant | None,
    name: str,
    result: CheckResult,
    actor: Actor,
    released_bytes: int = 0,
    on_stored: Callable[[Corpus], object] = lambda _: None,
) -> Corpus:
    """Store a corpus that was checked. Errors as ``corpus_upload``.

    ``on_stored`` is called in the same transaction. It releases ``released_bytes`` of the storage quota.
    """
    with store_files(dict(result.files.values())):
        if tenant is not None:
            quota_lock(tenant=tenant)
            quota_check_storage(tenant=tenant, adding_bytes=result.size, releasing_bytes=released_bytes)
        corpus = _corpus_insert(tenant, name, result, actor)
        on_stored(corpus)
        return corpus


def corpus_preview(*, stream: Readable | StoredFile, filename: str) -> dict[str, Any]:
    """The validation ``report`` and the first ``rows`` of a file. Nothing is stored."""
    with upload_store().workspace() as workspace:
        return corpus_validate(workspace=workspace, stream=stream, filename=filename).preview


@transaction.atomic
def corpus_rename(*, corpus: Corpus, name: str, actor: Actor) -> None:
    """Give a corpus another name. Versions keep the name that it had when they were trained. Raises
    ``conflict`` if the name is taken."""
    before = corpus.name
    corpus.name = clean_name(name)
    try:
        with transaction.atomic():
            corpus.save(update_fields=["name"])
    except IntegrityError as error:
        raise _name_taken(corpus.name) from error
    audit_record(
        verb="corpus.rename",
        subject=corpus.name,
        tenant=corpus.tenant,
        actor=actor,
        detail=change(before, corpus.name),
    )


def corpus_delete(*, corpus: Corpus, actor: Actor) -> None:
    """Delete a corpus, and its file unless another row refers to it. ``has_dependents`` if it is in use."""
    with transaction.atomic():
        audit_record(verb="corpus.delete", subject=corpus.name, tenant=corpus.tenant, actor=actor)
        digest = corpus.sha256
        try:
            corpus.delete()
        except ProtectedError as error:
            dependents = sorted(error.protected_objects, key=lambda row: row.pk)
            message = f"The corpus {corpus.name!r} is in use and cannot be deleted"
            raise has_dependents(message, dependents, param="corpus") from error
        transaction.on_commit(lambda: files_delete_unused([digest]))


def _corpus_insert(tenant: Tenant | None, name: str, result: CheckResult, actor: Actor) -> Corpus:
    _, digest = result.files[CORPUS]
    corpus = Corpus(
        tenant=tenant,
        name=name,
        sha256=digest.sha256,
        size_bytes=digest.size,
        rows=result.report["rows"],
        words=result.report["words"],
        report=result.report,
        created_by=person(actor),
    )
    try:
        with transaction.atomic():
            corpus.save(force_insert=True)
    except IntegrityError as error:
        raise _name_taken(name) from error
    audit_record(
        verb="corpus.upload", subject=name, tenant=tenant, actor=actor, detail={"sha256": digest.sha256}
    )
    return corpus


def _name_taken(name: str) -> HmiError:
    return HmiError(ErrorCode.CONFLICT, f"There is already a corpus with the name {name!r}.", param="name")

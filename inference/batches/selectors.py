"""Reads of batches. Each names the tenant whose rows it returns."""

from typing import IO
from uuid import UUID

from django.db.models import QuerySet

from inference.batches.models import ACTIVE_BATCHES, Batch, BatchState
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File
from tenants.datasets.storage import stored_path


def batches_of(tenant: Tenant) -> QuerySet[Batch]:
    """The tenant's batches, newest first."""
    return Batch.objects.for_tenant(tenant).select_related("created_by", "input", "results", "errors")


def batch_of(tenant: Tenant, batch_id: UUID) -> Batch:
    """One of them, or ``not_found``."""
    batch = batches_of(tenant).filter(pk=batch_id).first()
    if batch is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such batch.", param="batch_id")
    return batch


def batch_file_opened(batch: Batch, kind: str) -> tuple[IO[bytes], str]:
    """The ``results`` or ``errors`` of a batch to read, and what they are called. Raises ``not_found`` where
    there are none, or none yet."""
    file: File | None = getattr(batch, kind)
    if file is None:
        yet = "Not before it has ended" if batch.is_active else "This batch has none"
        raise HmiError(ErrorCode.NOT_FOUND, f"There are no {kind} to fetch. {yet}.", param="batch_id")
    try:
        return stored_path(file.sha256).open("rb"), file.filename
    except FileNotFoundError as error:
        message = "The file is missing on this server; an administrator must look."
        raise HmiError(ErrorCode.CORRUPT_ARTIFACT, message) from error


def others_wait(batch: Batch) -> bool:
    """Whether batches, of anybody, wait for somebody to work at them."""
    return Batch.unscoped.filter(state=BatchState.WAITING).exclude(pk=batch.pk).exists()


def batches_of_file(file: File) -> QuerySet[Batch]:
    """The batches of any tenant that have not ended and read the file."""
    return Batch.unscoped.filter(input=file, state__in=ACTIVE_BATCHES)

"""Reads of batches. Each names the tenant whose rows it returns."""

from collections.abc import Iterator
from typing import IO, Final
from uuid import UUID

from django.db.models import QuerySet

from inference.batches.models import ACTIVE_BATCHES, Batch, BatchState
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.hooks import TakeoutPart
from tenants.datasets.models import File
from tenants.datasets.storage import stored_path
from versiontree.transfer.takeout.tenant_parts import table_part

TAKEOUT_COLUMNS: Final = (
    "id",
    "model",
    "version_number",
    "filename",
    "state",
    "lines",
    "succeeded",
    "failed",
    "tokens",
    "created_at",
    "finished_at",
    "input_id",
    "results_id",
    "errors_id",
)


def batches_of(tenant: Tenant) -> QuerySet[Batch]:
    """The tenant's batches, newest first."""
    return Batch.objects.for_tenant(tenant).select_related("created_by", "input", "results", "errors")


def batch_of(tenant: Tenant, batch_id: UUID) -> Batch:
    """A batch of the tenant, or ``not_found``."""
    batch = batches_of(tenant).filter(pk=batch_id).first()
    if batch is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such batch.", param="batch_id")
    return batch


def batch_file_open(batch: Batch, kind: str) -> tuple[IO[bytes], str]:
    """The open file with the batch's ``results`` or ``errors``, and its filename.

    Raises ``not_found`` before the batch has ended, and if it has no such file.
    """
    file: File | None = getattr(batch, kind)
    if file is None:
        reason = "The batch has not ended yet." if batch.is_active else "The batch has none."
        raise HmiError(ErrorCode.NOT_FOUND, f"There are no {kind}. {reason}", param="batch_id")
    try:
        return stored_path(file.sha256).open("rb"), file.filename
    except FileNotFoundError as error:
        message = "The file is missing on this server. Contact an administrator."
        raise HmiError(ErrorCode.CORRUPT_ARTIFACT, message) from error


def other_batches_waiting(batch: Batch) -> bool:
    """Whether other batches, of any tenant, wait for a worker."""
    return Batch.unscoped.filter(state=BatchState.WAITING).exclude(pk=batch.pk).exists()


def batches_of_file(file: File) -> QuerySet[Batch]:
    """Active batches of any tenant that read the file."""
    return Batch.unscoped.filter(input=file, state__in=ACTIVE_BATCHES)


def batches_of_hplm(tenant: Tenant, name: str) -> QuerySet[Batch]:
    """Active batches that the tenant's model of this name answers."""
    return Batch.objects.for_tenant(tenant).filter(model_name=name, state__in=ACTIVE_BATCHES)


def batch_takeout_parts(tenant: Tenant) -> Iterator[TakeoutPart]:
    """The table of the tenant's batches for a takeout. Their files are among its files."""
    rows = Batch.objects.for_tenant(tenant).order_by("created_at", "pk")
    yield table_part("batches.csv", rows, TAKEOUT_COLUMNS)

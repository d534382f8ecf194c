"""Reads of batches. Each names the tenant whose rows it returns."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, Final
from uuid import UUID

from django.db.models import QuerySet

from inference.batches.models import ACTIVE_BATCHES, Batch
from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.hooks import TakeoutPart
from tenants.datasets.models import File
from tenants.datasets.storage import stored_open
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
    return stored_open(file.sha256), file.filename


@dataclass(frozen=True, slots=True)
class FailedLine:
    """A line of a batch without an answer: its number, the sender's id of it if there is one, and why."""

    number: int | None
    custom_id: str | None
    reason: str


def batch_first_failures(batch: Batch, limit: int = 5) -> list[FailedLine]:
    """The first lines without an answer, once the batch has ended."""
    if batch.errors is None:
        return []
    with stored_open(batch.errors.sha256) as stream:
        return [_failed_line(json.loads(line)) for line in islice(stream, limit)]


def _failed_line(line: dict[str, Any]) -> FailedLine:
    """A line of the errors of either format."""
    body = line["response"]["body"] if "response" in line else line
    error = body.get("error") or {}
    return FailedLine(line.get("line"), line.get("custom_id") or line.get("id"), error.get("message", ""))


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

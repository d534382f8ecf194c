"""Reads of files that are kept as they were sent. Each names the tenant whose rows it returns."""

from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.models import File, PartedFile


def files_of(tenant: Tenant) -> QuerySet[File]:
    """The tenant's files that have not expired, newest first."""
    return File.objects.for_tenant(tenant).filter(Q(expires_at=None) | Q(expires_at__gt=Now()))


def file_of(tenant: Tenant, file_id: UUID, *, param: str = "file_id") -> File:
    """One of them, or ``not_found``."""
    file = files_of(tenant).filter(pk=file_id).first()
    if file is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such file; it may have expired.", param=param)
    return file


def parted_file_of(tenant: Tenant, key: UUID) -> PartedFile:
    """The tenant's file in parts, whatever became of it, or ``not_found``."""
    rows = PartedFile.objects.for_tenant(tenant).select_related("tenant", "file")
    parted = rows.filter(pk=key, expires_at__gt=Now()).first()
    if parted is None:
        raise HmiError(
            ErrorCode.NOT_FOUND, "There is no such upload; it may have expired.", param="upload_id"
        )
    return parted

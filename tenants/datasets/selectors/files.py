"""Queries for files of a tenant."""

from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from tenants.accounts.models import Tenant
from tenants.base.errors import require_found
from tenants.datasets.models import File


def files_of(tenant: Tenant) -> QuerySet[File]:
    """The tenant's files that have not expired, newest first."""
    return File.objects.for_tenant(tenant).filter(Q(expires_at=None) | Q(expires_at__gt=Now()))


def file_of(tenant: Tenant, file_id: UUID, *, param: str = "file_id") -> File:
    """The tenant's file, or ``not_found``."""
    row = files_of(tenant).filter(pk=file_id).first()
    return require_found(row, "file; it may have expired", param=param)

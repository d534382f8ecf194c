"""Queries for the takeouts of a tenant."""

from uuid import UUID

from django.db.models import QuerySet

from tenants.accounts.models import Tenant
from tenants.base.errors import not_found, require_found
from versiontree.transfer.models import Takeout


def takeouts_of(tenant: Tenant) -> QuerySet[Takeout]:
    """The tenant's takeouts in any state, newest first."""
    return Takeout.unscoped.filter(tenant=tenant).select_related("created_by")


def takeout_of(tenant: Tenant, takeout_id: UUID) -> Takeout:
    """The tenant's takeout with this id, or ``not_found``."""
    row = takeouts_of(tenant).filter(pk=takeout_id).first()
    return require_found(row, "file; it may have expired", param="takeout")


def takeout_ready(tenant: Tenant, takeout_id: UUID) -> Takeout:
    """As ``takeout_of``, but ``not_found`` unless it can be downloaded."""
    takeout = takeout_of(tenant, takeout_id)
    if not takeout.is_ready:
        raise not_found("file; it may have expired", param="takeout")
    return takeout

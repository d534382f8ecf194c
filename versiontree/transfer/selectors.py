"""Reads of takeouts. Each names the tenant whose files it returns."""

from uuid import UUID

from django.db.models import QuerySet

from tenants.accounts.models import Tenant
from tenants.base.errors import ErrorCode, HmiError
from versiontree.transfer.models import Takeout, TakeoutState


def takeouts_of(tenant: Tenant) -> QuerySet[Takeout]:
    """The files with all data of the tenant, and what became of others, newest first."""
    return Takeout.objects.for_tenant(tenant).select_related("created_by")


def takeout_seen_by(tenant: Tenant, takeout_id: UUID) -> Takeout:
    """One of them, whatever became of it, or ``not_found``."""
    takeout = takeouts_of(tenant).filter(pk=takeout_id).first()
    if takeout is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such file; it may have expired.", param="takeout")
    return takeout


def takeout_of(tenant: Tenant, takeout_id: UUID) -> Takeout:
    """One that can be downloaded, or ``not_found``."""
    takeout = takeout_seen_by(tenant, takeout_id)
    if takeout.state != TakeoutState.READY:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such file; it may have expired.", param="takeout")
    return takeout

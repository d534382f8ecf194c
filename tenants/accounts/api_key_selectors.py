"""Reads of API keys. Each names the tenant whose keys it returns."""

from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from tenants.accounts.models import ApiKey, Membership, Tenant
from tenants.base.errors import ErrorCode, HmiError


def api_keys_of(tenant: Tenant) -> QuerySet[ApiKey]:
    """The tenant's keys, revoked and expired ones too, newest first; ``maker_belongs`` says whether who made
    it is still a member."""
    makers = Membership.objects.for_tenant(tenant).filter(user=OuterRef("created_by"))
    keys = ApiKey.objects.for_tenant(tenant).select_related("created_by", "replaced_by")
    return keys.annotate(maker_belongs=Exists(makers)).order_by("-created")


def api_keys_working(tenant: Tenant) -> QuerySet[ApiKey]:
    """Those that are neither revoked nor expired."""
    return api_keys_of(tenant).filter(Q(expiry_date=None) | Q(expiry_date__gt=Now()), revoked=False)


def api_keys_ended(tenant: Tenant, since: datetime) -> QuerySet[ApiKey]:
    """Those that were revoked, or expired, since then."""
    expired = Q(revoked=False, expiry_date__gte=since, expiry_date__lte=Now())
    return api_keys_of(tenant).filter(expired | Q(revoked_at__gte=since))


def api_key_of(tenant: Tenant, prefix: str) -> ApiKey:
    """The tenant's key with this prefix, or ``not_found``."""
    key = api_keys_of(tenant).filter(prefix=prefix).first()
    if key is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such API key.", param="prefix")
    return key

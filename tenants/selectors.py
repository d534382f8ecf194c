"""Reads. Each names the tenant whose rows it returns, or says that they are the platform's."""

from datetime import UTC, date, datetime

from django.contrib.auth.models import AnonymousUser
from django.db.models import F, QuerySet, Sum

from tenants.errors import ErrorCode, HmiError
from tenants.models import (
    ApiKey,
    Corpus,
    Dataset,
    DatasetSplit,
    Membership,
    Quota,
    Tenant,
    UsageDay,
    User,
)


def tenants_of(user: User | AnonymousUser) -> QuerySet[Tenant]:
    """The tenants the user is a member of, each with ``role``."""
    if not user.is_authenticated:
        return Tenant.objects.none()
    return (
        Tenant.objects.filter(memberships__user=user).annotate(role=F("memberships__role")).order_by("slug")
    )


def tenant_by_slug(slug: str) -> Tenant:
    """The tenant with this slug, or ``not_found``. Says nothing of what the caller may do there."""
    tenant = Tenant.objects.filter(slug=slug).first() if "\0" not in slug else None
    if tenant is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such tenant.", param="tenant")
    return tenant


def membership_of(user: User | AnonymousUser, tenant: Tenant) -> Membership | None:
    """The user's membership in the tenant, if there is one."""
    if not user.is_authenticated:
        return None
    return Membership.objects.for_tenant(tenant).filter(user=user).first()


def api_keys_of(tenant: Tenant) -> QuerySet[ApiKey]:
    """The tenant's keys, revoked and expired ones too, newest first."""
    return ApiKey.objects.for_tenant(tenant).select_related("created_by").order_by("-created")


def api_key_of(tenant: Tenant, prefix: str) -> ApiKey:
    """The tenant's key with this prefix, or ``not_found``."""
    key = api_keys_of(tenant).filter(prefix=prefix).first()
    if key is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such API key.", param="prefix")
    return key


def corpora_of(tenant: Tenant) -> QuerySet[Corpus]:
    """The tenant's own corpora, newest first."""
    return Corpus.objects.for_tenant(tenant).select_related("created_by")


def platform_corpora() -> QuerySet[Corpus]:
    """The platform's corpora, newest first."""
    return Corpus.unscoped.filter(tenant=None).select_related("created_by")


def corpus_of(tenant: Tenant, corpus_id: int) -> Corpus:
    """The tenant's corpus, or ``not_found``."""
    corpus = corpora_of(tenant).filter(pk=corpus_id).first()
    if corpus is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such corpus.", param="corpus")
    return corpus


def datasets_of(tenant: Tenant) -> QuerySet[Dataset]:
    """The tenant's datasets with their splits, newest first."""
    return Dataset.objects.for_tenant(tenant).select_related("created_by").prefetch_related("splits")


def dataset_of(tenant: Tenant, dataset_id: int) -> Dataset:
    """The tenant's dataset, or ``not_found``."""
    dataset = datasets_of(tenant).filter(pk=dataset_id).first()
    if dataset is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such dataset.", param="dataset")
    return dataset


def quota_of(tenant: Tenant) -> Quota:
    """The tenant's quota; the defaults when no row was ever written."""
    return Quota.objects.for_tenant(tenant).first() or Quota(tenant=tenant)


def storage_used(tenant: Tenant) -> int:
    """Bytes of the tenant's uploads, each row counted with its full size."""
    corpora = Corpus.objects.for_tenant(tenant).aggregate(total=Sum("size_bytes"))["total"]
    splits = DatasetSplit.objects.for_tenant(tenant).aggregate(total=Sum("size_bytes"))["total"]
    return int(corpora or 0) + int(splits or 0)


def usage_of(tenant: Tenant, since: date) -> QuerySet[UsageDay]:
    """The tenant's usage by day and hPLM, from this day on, newest first."""
    return UsageDay.objects.for_tenant(tenant).filter(day__gte=since)


def requests_today(tenant: Tenant) -> int:
    """Infer requests of the tenant since midnight UTC."""
    rows = UsageDay.objects.for_tenant(tenant).filter(day=datetime.now(UTC).date())
    return int(rows.aggregate(total=Sum("requests"))["total"] or 0)

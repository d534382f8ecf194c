"""Reads. Each names the tenant whose rows it returns, or says that they are the platform's."""

from datetime import UTC, date, datetime
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db.models import F, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Now

from tenants.errors import ErrorCode, HmiError
from tenants.models import (
    ApiKey,
    Corpus,
    Dataset,
    DatasetSplit,
    Membership,
    Quota,
    Tenant,
    Upload,
    UploadCheck,
    UsageDay,
    User,
)
from tenants.models.upload_check import ACTIVE_STATES, CheckState


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


def upload_by_id(kind: str, upload_id: int) -> Corpus | Dataset | None:
    """For system code: any tenant's ``corpus`` or ``dataset``."""
    if kind == "corpus":
        return Corpus.unscoped.select_related("tenant").filter(pk=upload_id).first()
    return Dataset.unscoped.select_related("tenant").filter(pk=upload_id).first()


def quota_of(tenant: Tenant) -> Quota:
    """The tenant's quota; the defaults when no row was ever written."""
    return Quota.objects.for_tenant(tenant).first() or Quota(tenant=tenant)


def storage_used(tenant: Tenant) -> int:
    """Bytes of the tenant's uploads, each row counted with its full size, also those that still come in."""
    counted = (
        Corpus.objects.for_tenant(tenant),
        DatasetSplit.objects.for_tenant(tenant),
        uploads_unexpired(tenant),
    )
    return sum(int(rows.aggregate(total=Sum("size_bytes"))["total"] or 0) for rows in counted)


def uploads_unexpired(tenant: Tenant) -> QuerySet[Upload]:
    """The tenant's files that come in or wait to be used, newest first."""
    return Upload.objects.for_tenant(tenant).filter(expires_at__gt=Now())


def uploads_of(tenant: Tenant, owner: User | ApiKey) -> QuerySet[Upload]:
    """Those that this person or key began."""
    field = "api_key" if isinstance(owner, ApiKey) else "created_by"
    return uploads_unexpired(tenant).filter(**{field: owner})


def upload_of(tenant: Tenant, owner: User | ApiKey, upload_id: UUID) -> Upload:
    """One of these, or ``not_found``: to others of the tenant, too."""
    upload = uploads_of(tenant, owner).filter(pk=upload_id).first()
    if upload is None:
        raise HmiError(
            ErrorCode.NOT_FOUND, "There is no such upload; it may have expired. Begin anew.", param="upload"
        )
    return upload


def uploads_in_use() -> list[UUID]:
    """The uploads of all tenants that a check is about to read."""
    files = UploadCheck.unscoped.filter(state__in=ACTIVE_STATES).values_list("files", flat=True)
    return [UUID(key) for named in files for key in named.values()]


def checks_open(tenant: Tenant) -> QuerySet[UploadCheck]:
    """What a worker is to store for the tenant, and what it refused to, newest first."""
    rows = UploadCheck.objects.for_tenant(tenant).filter(stores=True, nudged_at__isnull=False)
    return rows.exclude(state=CheckState.STORED)[:20]


def check_of(tenant: Tenant, check_id: UUID) -> UploadCheck:
    """The tenant's check of uploads, or ``not_found``."""
    check = UploadCheck.objects.for_tenant(tenant).filter(pk=check_id).first()
    if check is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such check; it may have expired.", param="check")
    return check


def usage_of(tenant: Tenant, since: date) -> QuerySet[UsageDay]:
    """The tenant's usage by day and hPLM, from this day on, newest first."""
    return UsageDay.objects.for_tenant(tenant).filter(day__gte=since)


def requests_today(tenant: Tenant) -> int:
    """Infer requests of the tenant since midnight UTC, as far as they are written down."""
    rows = UsageDay.objects.for_tenant(tenant).filter(day=datetime.now(UTC).date())
    return int(rows.aggregate(total=Sum("requests"))["total"] or 0)


def requests_allowed(tenant: Tenant, day: date) -> tuple[int, int]:
    """How many infer requests the tenant may send a day, and how many of that day are written down; one
    query."""
    of_day = UsageDay.unscoped.filter(tenant=OuterRef("tenant"), day=day).order_by().values("tenant")
    used = Subquery(of_day.annotate(total=Sum("requests")).values("total"))
    found = Quota.objects.for_tenant(tenant).values_list("max_requests_per_day", used).first()
    if found is None:
        return Quota(tenant=tenant).max_requests_per_day, requests_today(tenant)
    return int(found[0]), int(found[1] or 0)

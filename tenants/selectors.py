"""Reads. Each names the tenant whose rows it returns, or says that they are the platform's."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db.models import Case, Count, F, OuterRef, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce, Now

from tenants.api_key_selectors import api_keys_working
from tenants.errors import ErrorCode, HmiError
from tenants.models import (
    ApiKey,
    Corpus,
    Dataset,
    DatasetSplit,
    File,
    Invitation,
    InvitationState,
    Membership,
    Quota,
    Role,
    Tenant,
    Upload,
    UploadCheck,
    UsageDay,
    UsageSum,
    User,
)
from tenants.models.upload_check import ACTIVE_STATES, CheckState
from tenants.scope import platform_scope, tenant_scope


class Rates(NamedTuple):
    """So much a minute: infer requests, their tokens, requests to the manage API. 0: as much as they like."""

    requests_per_minute: int
    tokens_per_minute: int
    manage_per_minute: int


def tenants_of(user: User | AnonymousUser) -> list[Tenant]:
    """The tenants the user is a member of, each with ``role``, by their slugs."""
    with platform_scope():
        return list(tenants_joined(user).order_by("slug"))


def tenants_joined(user: User | AnonymousUser) -> QuerySet[Tenant]:
    """The same as a query, to be asked in the scope of the platform."""
    if not user.is_authenticated:
        return Tenant.objects.none()
    return Tenant.objects.filter(memberships__user=user).annotate(role=F("memberships__role"))


def tenant_by_slug(slug: str) -> Tenant:
    """The tenant with this slug, or ``not_found``. Says nothing of what the caller may do there."""
    with platform_scope():
        tenant = Tenant.objects.filter(slug=slug).first() if "\0" not in slug else None
    if tenant is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such tenant.", param="tenant")
    return tenant


def membership_of(user: User | AnonymousUser, tenant: Tenant) -> Membership | None:
    """The user's membership in the tenant, if there is one."""
    if not user.is_authenticated:
        return None
    with tenant_scope(tenant):
        return Membership.objects.for_tenant(tenant).filter(user=user).first()


def memberships_alive(ids: Iterable[int]) -> set[int]:
    """For system code: those of these memberships, of any tenant, by which somebody may still look."""
    members = Membership.unscoped.filter(user__is_active=True, tenant__suspended_at=None, pk__in=list(ids))
    with platform_scope():
        return set(members.values_list("pk", flat=True))


def members_of(tenant: Tenant) -> QuerySet[Membership]:
    """The members with their people, owners first; ``keys`` counts the working keys that each has made."""
    ranked = Case(*(When(role=role, then=-role.rank) for role in Role))
    made = api_keys_working(tenant).filter(created_by=OuterRef("user")).order_by().values("created_by")
    keys = Coalesce(Subquery(made.annotate(count=Count("pk")).values("count")), 0)
    members = Membership.objects.for_tenant(tenant).select_related("user").annotate(keys=keys)
    return members.order_by(ranked, "user__username")


def member_of(tenant: Tenant, member_id: int) -> Membership:
    """The tenant's member, or ``not_found``."""
    member = members_of(tenant).filter(pk=member_id).first()
    if member is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such member.", param="member")
    return member


def has_address(user: User, email: str) -> bool:
    """Whether the address is one that the user has confirmed. What an account only says of itself anybody
    can say."""
    confirmed = User.objects.filter(emailaddress__email__iexact=email, emailaddress__verified=True)
    return confirmed.filter(pk=user.pk).exists()


def invitations_of(tenant: Tenant) -> QuerySet[Invitation]:
    """The invitations that nobody has accepted or withdrawn, those that ran out among them, newest first."""
    waiting = Invitation.objects.for_tenant(tenant).filter(state=InvitationState.WAITING)
    return waiting.select_related("tenant", "invited_by")


def invitation_of(tenant: Tenant, invitation_id: int) -> Invitation:
    """The tenant's invitation, whatever became of it, or ``not_found``."""
    rows = Invitation.objects.for_tenant(tenant).select_related("tenant", "invited_by")
    invitation = rows.filter(pk=invitation_id).first()
    if invitation is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such invitation.", param="invitation")
    return invitation


def invitation_by_hash(token_hash: str) -> Invitation | None:
    """Any tenant's: whoever has the token has nothing else to show yet."""
    rows = Invitation.unscoped.select_related("tenant", "invited_by")
    with platform_scope():
        return rows.filter(token_hash=token_hash).first()


def invitations_made_since(tenant: Tenant, moment: datetime) -> int:
    """How many links were made, whatever became of them."""
    return Invitation.objects.for_tenant(tenant).filter(created_at__gte=moment).count()


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
    """Bytes of the tenant's uploads and files, each row with its full size, also those still to come in, and
    what was made of uploads for when they are stored; one query."""
    counted: tuple[tuple[QuerySet[Any], str], ...] = (
        (Corpus.objects.for_tenant(tenant), "size_bytes"),
        (DatasetSplit.objects.for_tenant(tenant), "size_bytes"),
        (File.objects.for_tenant(tenant), "size_bytes"),
        (uploads_unexpired(tenant), "size_bytes"),
        (UploadCheck.objects.for_tenant(tenant).filter(kept__isnull=False), "kept_bytes"),
    )
    alike = ((rows.order_by().values(one=Value(1)), field) for rows, field in counted)
    sums = [Subquery(rows.annotate(sum=Sum(field)).values("sum")) for rows, field in alike]
    found = Tenant.objects.filter(pk=tenant.pk).values_list(*sums).first()
    return sum(int(bytes_of or 0) for bytes_of in found or ())


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
    """The tenant's usage by day, hPLM and key, from this day on, newest first."""
    return UsageDay.objects.for_tenant(tenant).filter(day__gte=since)


def requests_today(tenant: Tenant) -> int:
    """Infer requests of the tenant since midnight UTC, as far as they are written down."""
    rows = UsageSum.objects.for_tenant(tenant).filter(day=datetime.now(UTC).date())
    return int(rows.aggregate(total=Sum("requests"))["total"] or 0)


def requests_allowed(tenant: Tenant, day: date) -> tuple[int, int]:
    """How many infer requests the tenant may send a day, and how many of that day are written down; one
    query."""
    of_day = UsageSum.unscoped.filter(tenant=OuterRef("tenant"), day=day).order_by().values("tenant")
    used = Subquery(of_day.annotate(total=Sum("requests")).values("total"))
    found = Quota.objects.for_tenant(tenant).values_list("max_requests_per_day", used).first()
    if found is None:
        return Quota(tenant=tenant).max_requests_per_day, requests_today(tenant)
    return int(found[0]), int(found[1] or 0)


def rates_of(tenant: Tenant) -> Rates:
    """What the tenant may do in a minute: its own limits, else the installation's."""
    found = Quota.objects.for_tenant(tenant).values_list(*Rates._fields).first() or (None, None, None)
    usual = (settings.HMI_RATE_REQUESTS, settings.HMI_RATE_TOKENS, settings.HMI_RATE_MANAGE)
    return Rates(*(own or common for own, common in zip(found, usual, strict=True)))

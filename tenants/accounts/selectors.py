"""Queries for tenants, members, invitations and API keys."""

from collections.abc import Iterable
from datetime import datetime

from django.contrib.auth.models import AnonymousUser
from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce, Now

from tenants.accounts.models import ApiKey, Invitation, InvitationState, Membership, Role, Tenant, User
from tenants.audit.selectors import SYSTEM
from tenants.base.errors import ErrorCode, HmiError, require_found
from tenants.base.scope import platform_scope, tenant_scope


def tenants_of(user: User | AnonymousUser) -> list[Tenant]:
    """The tenants of the user that are not being deleted, by slug. Each has the user's ``role``."""
    with platform_scope():
        return list(tenants_joined(user).filter(deletion_requested_at=None).order_by("slug"))


def tenants_joined(user: User | AnonymousUser) -> QuerySet[Tenant]:
    """The tenants of the user as a query, to run in ``platform_scope``."""
    if not user.is_authenticated:
        return Tenant.objects.none()
    return Tenant.objects.filter(memberships__user=user).annotate(role=F("memberships__role"))


def tenant_by_slug(slug: str) -> Tenant:
    """The tenant with this slug, or ``not_found``. Does not check permissions."""
    with platform_scope():
        tenant = Tenant.objects.filter(slug=slug).first() if "\0" not in slug else None
    if tenant is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such tenant.", param="tenant")
    return tenant


def membership_of(user: User | AnonymousUser, tenant: Tenant) -> Membership | None:
    """The user's membership in the tenant, or None."""
    if not user.is_authenticated:
        return None
    with tenant_scope(tenant):
        return Membership.objects.for_tenant(tenant).filter(user=user).first()


def active_membership_ids(ids: Iterable[int]) -> set[int]:
    """Those of these memberships whose user is active and whose tenant is not suspended. Any tenant."""
    members = Membership.unscoped.filter(user__is_active=True, tenant__suspended_at=None, pk__in=list(ids))
    with platform_scope():
        return set(members.values_list("pk", flat=True))


def members_of(tenant: Tenant) -> QuerySet[Membership]:
    """The members with their users, owners first. ``keys`` is the number of active keys each has created."""
    ranked = Case(*(When(role=role, then=-role.rank) for role in Role))
    created = api_keys_active(tenant).filter(created_by=OuterRef("user")).order_by().values("created_by")
    keys = Coalesce(Subquery(created.annotate(count=Count("pk")).values("count")), 0)
    members = Membership.objects.for_tenant(tenant).select_related("user").annotate(keys=keys)
    return members.order_by(ranked, "user__username")


def member_of(tenant: Tenant, member_id: int) -> Membership:
    """The tenant's member, or ``not_found``."""
    return require_found(members_of(tenant).filter(pk=member_id).first(), "member", param="member")


def has_verified_email(user: User, email: str) -> bool:
    """Whether the user has verified this address. ``User.email`` proves nothing."""
    verified = User.objects.filter(emailaddress__email__iexact=email, emailaddress__verified=True)
    return verified.filter(pk=user.pk).exists()


def invitations_of(tenant: Tenant) -> QuerySet[Invitation]:
    """The waiting invitations, including expired ones, newest first."""
    waiting = Invitation.objects.for_tenant(tenant).filter(state=InvitationState.WAITING)
    return waiting.select_related("tenant", "invited_by")


def invitation_of(tenant: Tenant, invitation_id: int) -> Invitation:
    """The tenant's invitation in any state, or ``not_found``."""
    rows = Invitation.objects.for_tenant(tenant).select_related("tenant", "invited_by")
    return require_found(rows.filter(pk=invitation_id).first(), "invitation", param="invitation")


def invitation_by_hash(token_hash: str) -> Invitation | None:
    """The invitation with this token hash, of any tenant, or None."""
    rows = Invitation.unscoped.select_related("tenant", "invited_by")
    with platform_scope():
        return rows.filter(token_hash=token_hash).first()


def invitations_created_since(tenant: Tenant, moment: datetime) -> int:
    """The number of invitations created since then, in any state."""
    return Invitation.objects.for_tenant(tenant).filter(created_at__gte=moment).count()


def audit_actors(tenant: Tenant) -> list[str]:
    """The actors to filter the audit log by: members, the newest keys, and the system."""
    members = Membership.objects.for_tenant(tenant).order_by("user__username")
    keys = ApiKey.objects.for_tenant(tenant).order_by("-created").values_list("prefix", flat=True)
    return [*members.values_list("user__username", flat=True), *keys[:50], SYSTEM]


def api_keys_of(tenant: Tenant) -> QuerySet[ApiKey]:
    """The tenant's keys, newest first. ``creator_is_member`` is whether the creator is still a member."""
    creators = Membership.objects.for_tenant(tenant).filter(user=OuterRef("created_by"))
    keys = ApiKey.objects.for_tenant(tenant).select_related("created_by", "replaced_by")
    return keys.annotate(creator_is_member=Exists(creators)).order_by("-created")


def api_keys_active(tenant: Tenant) -> QuerySet[ApiKey]:
    """The keys that are neither revoked nor expired."""
    return api_keys_of(tenant).filter(Q(expiry_date=None) | Q(expiry_date__gt=Now()), revoked=False)


def api_keys_ended(tenant: Tenant, since: datetime) -> QuerySet[ApiKey]:
    """The keys that were revoked or expired since then."""
    expired = Q(revoked=False, expiry_date__gte=since, expiry_date__lte=Now())
    return api_keys_of(tenant).filter(expired | Q(revoked_at__gte=since))


def api_key_of(tenant: Tenant, prefix: str) -> ApiKey:
    """The tenant's key with this prefix, or ``not_found``."""
    return require_found(api_keys_of(tenant).filter(prefix=prefix).first(), "API key", param="prefix")

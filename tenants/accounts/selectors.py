"""Reads. Each names the tenant whose rows it returns, or says that they are the platform's."""

from collections.abc import Iterable
from datetime import datetime

from django.contrib.auth.models import AnonymousUser
from django.db.models import Case, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce, Now

from tenants.accounts.models import ApiKey, Invitation, InvitationState, Membership, Role, Tenant, User
from tenants.audit.selectors import SYSTEM
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import platform_scope, tenant_scope


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


def active_membership_ids(ids: Iterable[int]) -> set[int]:
    """For system code: those of these memberships, of any tenant, by which somebody may still look."""
    members = Membership.unscoped.filter(user__is_active=True, tenant__suspended_at=None, pk__in=list(ids))
    with platform_scope():
        return set(members.values_list("pk", flat=True))


def members_of(tenant: Tenant) -> QuerySet[Membership]:
    """The members with their people, owners first; ``keys`` counts the working keys that each has made."""
    ranked = Case(*(When(role=role, then=-role.rank) for role in Role))
    made = api_keys_active(tenant).filter(created_by=OuterRef("user")).order_by().values("created_by")
    keys = Coalesce(Subquery(made.annotate(count=Count("pk")).values("count")), 0)
    members = Membership.objects.for_tenant(tenant).select_related("user").annotate(keys=keys)
    return members.order_by(ranked, "user__username")


def member_of(tenant: Tenant, member_id: int) -> Membership:
    """The tenant's member, or ``not_found``."""
    member = members_of(tenant).filter(pk=member_id).first()
    if member is None:
        raise HmiError(ErrorCode.NOT_FOUND, "There is no such member.", param="member")
    return member


def has_verified_email(user: User, email: str) -> bool:
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


def invitations_created_since(tenant: Tenant, moment: datetime) -> int:
    """How many links were made, whatever became of them."""
    return Invitation.objects.for_tenant(tenant).filter(created_at__gte=moment).count()


def audit_actors(tenant: Tenant) -> list[str]:
    """The user names of its members, and the prefixes of its keys: those whom one may look for."""
    members = Membership.objects.for_tenant(tenant).order_by("user__username")
    keys = ApiKey.objects.for_tenant(tenant).order_by("-created").values_list("prefix", flat=True)
    return [*members.values_list("user__username", flat=True), *keys[:50], SYSTEM]


def api_keys_of(tenant: Tenant) -> QuerySet[ApiKey]:
    """Return the tenant's keys, newest first; ``creator_is_member``: is its creator a member."""
    makers = Membership.objects.for_tenant(tenant).filter(user=OuterRef("created_by"))
    keys = ApiKey.objects.for_tenant(tenant).select_related("created_by", "replaced_by")
    return keys.annotate(creator_is_member=Exists(makers)).order_by("-created")


def api_keys_active(tenant: Tenant) -> QuerySet[ApiKey]:
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

"""Who belongs to a tenant, in which role. A tenant that has owners keeps at least one."""

from django.db import IntegrityError, transaction
from django.db.models import Q

from tenants.accounts.models import ApiKey, Membership, Role, Tenant, User
from tenants.accounts.services.api_keys import api_key_revoke
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError


def clean_role(role: str) -> Role:
    """A known role, or ``invalid_field``."""
    try:
        return Role(role)
    except ValueError as error:
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"A role is one of {', '.join(Role.values)}.", param="role"
        ) from error


@transaction.atomic
def member_add(*, tenant: Tenant, user: User, role: str, actor: Actor = None) -> Membership:
    """Give a user a role in the tenant. Already a member: ``conflict``."""
    membership = Membership(tenant=tenant, user=user, role=clean_role(role))
    try:
        with transaction.atomic():
            membership.save(force_insert=True)
    except IntegrityError as error:
        raise HmiError(
            ErrorCode.CONFLICT, f"{user.get_username()} is already a member of {tenant.slug}.", param="user"
        ) from error
    _record("member.add", membership, actor)
    return membership


@transaction.atomic
def member_set_role(*, membership: Membership, role: str, actor: Actor = None) -> Membership:
    """Change a member's role. The last owner stays one: ``last_owner``. Gone meanwhile: ``not_found``."""
    cleaned = clean_role(role)
    found = _locked(membership, goes=cleaned != Role.OWNER)
    if found.role != cleaned:
        found.role = cleaned
        found.save(update_fields=["role"])
        _record("member.set_role", found, actor)
    return found


@transaction.atomic
def member_remove(*, membership: Membership, actor: Actor = None, revoke_keys: bool = False) -> None:
    """End a membership, by an owner or by the member. The last owner cannot go: ``last_owner``. Gone
    meanwhile: ``not_found``.

    Keys that the member made belong to the tenant and go on, unless they are to be revoked as well.
    """
    found = _locked(membership, goes=True)
    _record("member.leave" if found.user == actor else "member.remove", found, actor)
    if revoke_keys:
        for key in ApiKey.objects.for_tenant(found.tenant).filter(created_by=found.user, revoked=False):
            api_key_revoke(api_key=key, actor=actor)
    found.delete()


def members_lock(*, membership: Membership) -> dict[int, Membership]:
    """The member, if still there, and all owners by their ids, as they are now, locked in one order: of two
    owners who go at once the second does not count on the first."""
    which = Q(pk=membership.pk) | Q(role=Role.OWNER)
    members = Membership.objects.for_tenant(membership.tenant).filter(which).order_by("pk")
    return {row.pk: row for row in members.select_related("user", "tenant").select_for_update(of=("self",))}


def _locked(membership: Membership, *, goes: bool) -> Membership:
    rows = members_lock(membership=membership)
    found = rows.pop(membership.pk, None)
    if found is None:
        raise HmiError(ErrorCode.NOT_FOUND, "This member is not there any more.", param="member")
    if goes and found.role == Role.OWNER and not rows:
        raise HmiError(
            ErrorCode.LAST_OWNER,
            f"{found.user.get_username()} is the only owner of {found.tenant.slug}, and a tenant keeps at"
            " least one: make somebody else an owner first.",
            param="role",
        )
    return found


def _record(verb: str, membership: Membership, actor: Actor) -> None:
    audit_record(
        verb=verb,
        subject=membership.user.get_username(),
        tenant=membership.tenant,
        actor=actor,
        detail={"role": str(membership.role)},
    )

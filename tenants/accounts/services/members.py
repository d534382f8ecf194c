"""Members of a tenant: add, change role, remove. The last owner cannot be removed."""

from django.db import IntegrityError, transaction
from django.db.models import Q

from tenants.accounts.models import ApiKey, Membership, Role, Tenant, User
from tenants.accounts.services.api_keys import api_key_revoke
from tenants.audit.details import change
from tenants.audit.services import Actor, audit_record
from tenants.base.errors import ErrorCode, HmiError


def clean_role(role: str) -> Role:
    """The role, or ``invalid_field``."""
    try:
        return Role(role)
    except ValueError as error:
        raise HmiError(
            ErrorCode.INVALID_FIELD, f"The role must be one of: {', '.join(Role.values)}.", param="role"
        ) from error


@transaction.atomic
def member_add(*, tenant: Tenant, user: User, role: str, actor: Actor = None) -> Membership:
    """Add a user to the tenant. ``conflict`` for a member."""
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
    """Change a member's role. ``last_owner`` for the last owner, ``not_found`` if removed meanwhile."""
    cleaned = clean_role(role)
    found = _locked(membership, loses_ownership=cleaned != Role.OWNER)
    if found.role != cleaned:
        before, found.role = found.role, cleaned
        found.save(update_fields=["role"])
        _record("member.set_role", found, actor, role=change(str(before), str(cleaned)))
    return found


@transaction.atomic
def member_remove(*, membership: Membership, actor: Actor = None, revoke_keys: bool = False) -> None:
    """Remove a member. ``last_owner`` for the last owner, ``not_found`` if removed meanwhile.

    Keys that the member created belong to the tenant, and keep working unless ``revoke_keys``.
    """
    found = _locked(membership, loses_ownership=True)
    _record("member.leave" if found.user == actor else "member.remove", found, actor)
    if revoke_keys:
        for key in ApiKey.objects.for_tenant(found.tenant).filter(created_by=found.user, revoked=False):
            api_key_revoke(api_key=key, actor=actor)
    found.delete()


def members_lock(*, membership: Membership) -> dict[int, Membership]:
    """Lock the member and all owners; returns the current rows by id.

    Of two owners who leave at the same time, the second waits, and then is the last.
    """
    member_or_owner = Q(pk=membership.pk) | Q(role=Role.OWNER)
    members = Membership.objects.for_tenant(membership.tenant).filter(member_or_owner).order_by("pk")
    return {row.pk: row for row in members.select_related("user", "tenant").select_for_update(of=("self",))}


def _locked(membership: Membership, *, loses_ownership: bool) -> Membership:
    rows = members_lock(membership=membership)
    found = rows.pop(membership.pk, None)
    if found is None:
        raise HmiError(ErrorCode.NOT_FOUND, "This member was already removed.", param="member")
    if loses_ownership and found.role == Role.OWNER and not rows:
        raise HmiError(
            ErrorCode.LAST_OWNER,
            f"{found.user.get_username()} is the only owner of {found.tenant.slug}."
            " Make another member an owner first.",
            param="role",
        )
    return found


def _record(verb: str, membership: Membership, actor: Actor, **detail: object) -> None:
    audit_record(
        verb=verb,
        subject=membership.user.get_username(),
        tenant=membership.tenant,
        actor=actor,
        detail={"role": str(membership.role), **detail},
    )

"""Who belongs to a tenant, in which role. A tenant that has owners keeps at least one."""

from django.db import IntegrityError, transaction

from tenants.errors import ErrorCode, HmiError
from tenants.models import Membership, Role, Tenant, User
from tenants.services.audit import Actor, audit_record


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
    """Change a member's role. The last owner stays one: ``conflict``."""
    cleaned = clean_role(role)
    if cleaned != Role.OWNER:
        _keep_an_owner(membership)
    membership.role = cleaned
    membership.save(update_fields=["role"])
    _record("member.set_role", membership, actor)
    return membership


@transaction.atomic
def member_remove(*, membership: Membership, actor: Actor = None) -> None:
    """End a membership. The last owner cannot go: ``conflict``."""
    _keep_an_owner(membership)
    _record("member.remove", membership, actor)
    membership.delete()


def _keep_an_owner(leaving: Membership) -> None:
    owners = Membership.objects.for_tenant(leaving.tenant).filter(role=Role.OWNER)
    # The rows are locked, so that two owners who leave at once do not both see the other.
    ids = set(owners.select_for_update().order_by("pk").values_list("pk", flat=True))
    if ids == {leaving.pk}:
        raise HmiError(ErrorCode.CONFLICT, "A tenant keeps at least one owner.", param="role")


def _record(verb: str, membership: Membership, actor: Actor) -> None:
    audit_record(
        verb=verb,
        subject=membership.user.get_username(),
        tenant=membership.tenant,
        actor=actor,
        detail={"role": str(membership.role)},
    )

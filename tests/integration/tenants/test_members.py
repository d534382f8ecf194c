"""Tenants and who belongs to them."""

from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from tenants.accounts.models import ApiKey, Membership, User
from tenants.accounts.permissions import require_role, require_staff, tenant_for
from tenants.accounts.selectors import api_keys_of, membership_of, tenants_of
from tenants.accounts.services.api_keys import api_key_create
from tenants.accounts.services.members import member_add, member_remove, member_set_role
from tenants.accounts.services.tenants import tenant_create, tenant_resume, tenant_suspend
from tenants.audit.models import AuditEvent
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.scope import platform_scope
from tenants.usage.selectors import quota_of
from tests.integration.tenants.content import audit_of
from tests.integration.versiontree.test_races import at_once
from tests.integration.world import World, make_user
from tests.unit.tenants.files import refused

pytestmark = pytest.mark.usefixtures("in_acme_scope")

RIGHTS = [
    ("owner", "owner", None),
    ("owner", "viewer", None),
    ("developer", "owner", ErrorCode.FORBIDDEN),
    ("developer", "developer", None),
    ("viewer", "developer", ErrorCode.FORBIDDEN),
    ("viewer", "viewer", None),
    ("stranger", "viewer", ErrorCode.NOT_FOUND),
    ("staff", "viewer", ErrorCode.NOT_FOUND),
]


def test_stranger_gets_not_found_and_member_without_the_right_forbidden(world: World) -> None:
    for who, needs, code in RIGHTS:
        user = getattr(world, who)
        if code is None:
            assert require_role(user, world.tenant, needs).user == user
            assert tenant_for(user, "acme", needs) == world.tenant
        else:
            refused(code, partial(require_role, user, world.tenant, needs))
            refused(code, partial(tenant_for, user, "acme", needs))


def test_anonymous_user_is_refused_whether_the_tenant_exists_or_not(world: World) -> None:
    refused(ErrorCode.UNAUTHENTICATED, lambda: require_role(AnonymousUser(), world.tenant, "viewer"))
    refused(ErrorCode.UNAUTHENTICATED, lambda: tenant_for(AnonymousUser(), "acme", "viewer"))
    refused(ErrorCode.UNAUTHENTICATED, lambda: tenant_for(AnonymousUser(), "nowhere", "viewer"))


def test_an_unknown_tenant_and_a_strange_one_sound_the_same(world: World) -> None:
    unknown = refused(ErrorCode.NOT_FOUND, lambda: tenant_for(world.stranger, "nowhere", "viewer"))
    strange = refused(ErrorCode.NOT_FOUND, lambda: tenant_for(world.stranger, "acme", "viewer"))
    assert unknown.to_json() == strange.to_json()
    refused(ErrorCode.NOT_FOUND, lambda: tenant_for(world.stranger, "a\0b", "viewer"))


def test_only_staff_look_after_the_platform(world: World) -> None:
    require_staff(world.staff)
    refused(ErrorCode.FORBIDDEN, lambda: require_staff(world.owner))
    refused(ErrorCode.UNAUTHENTICATED, lambda: require_staff(AnonymousUser()))


def test_a_tenant_comes_with_its_quota_owner_and_audit_event(world: World) -> None:
    assert quota_of(world.tenant).pk is not None
    membership = membership_of(world.owner, world.tenant)
    assert membership is not None
    assert membership.role == "owner"
    assert "tenant.create" in audit_of(world.tenant).values_list("verb", flat=True)
    mine: Any = tenants_of(world.developer)
    assert [(tenant.slug, tenant.role) for tenant in mine] == [("acme", "developer")]
    assert not tenants_of(AnonymousUser())


@platform_scope()
def test_a_slug_is_plain_and_given_once_and_a_name_is_one_line(world: World) -> None:
    before = AuditEvent.unscoped.count()
    slugs = dict.fromkeys(
        ["", "Acme", "a b", "-a", "a-", "ä", "a" * 51, "a\n", "a\0"], ErrorCode.INVALID_FIELD
    )
    for slug, code in (slugs | {"acme": ErrorCode.CONFLICT}).items():
        assert refused(code, partial(tenant_create, slug=slug, name="x")).param == "slug"
    for name in ("", "  ", "x" * 201, "a\nb", "a\0b"):
        code = ErrorCode.INVALID_FIELD if name.strip() else ErrorCode.MISSING_FIELD
        assert refused(code, partial(tenant_create, slug="new", name=name)).param == "name"
    assert AuditEvent.unscoped.count() == before


def test_a_suspended_tenant_is_closed_to_its_members_until_it_is_resumed(world: World) -> None:
    assert tenant_suspend(tenant=world.tenant, actor=world.staff, reason="unpaid")
    assert not tenant_suspend(tenant=world.tenant, actor=world.staff)
    refused(ErrorCode.FORBIDDEN, lambda: tenant_for(world.owner, "acme", "viewer"))
    refused(ErrorCode.NOT_FOUND, lambda: tenant_for(world.stranger, "acme", "viewer"))
    assert tenant_resume(tenant=world.tenant, actor=world.staff)
    assert not tenant_resume(tenant=world.tenant, actor=world.staff)
    tenant_for(world.owner, "acme", "viewer")
    verbs = list(audit_of(world.tenant).values_list("verb", "actor__username"))[:2]
    assert verbs == [("tenant.resume", "staff"), ("tenant.suspend", "staff")]


def test_second_membership_and_unknown_role_are_refused(world: World) -> None:
    refused(ErrorCode.CONFLICT, lambda: member_add(tenant=world.tenant, user=world.owner, role="viewer"))
    refused(
        ErrorCode.INVALID_FIELD, lambda: member_add(tenant=world.tenant, user=world.stranger, role="king")
    )


def test_the_last_owner_stays(world: World) -> None:
    owner = membership_of(world.owner, world.tenant)
    assert owner is not None
    refused(ErrorCode.LAST_OWNER, lambda: member_set_role(membership=owner, role="viewer"))
    refused(ErrorCode.LAST_OWNER, lambda: member_remove(membership=owner))
    developer = membership_of(world.developer, world.tenant)
    assert developer is not None
    member_set_role(membership=developer, role="owner", actor=world.owner)
    member_remove(membership=owner, actor=world.developer)
    assert Membership.objects.for_tenant(world.tenant).filter(role="owner").get().user == world.developer


def test_keys_of_a_removed_member_stay_valid_unless_revoked(world: World) -> None:
    def make(name: str) -> ApiKey:
        key, _ = api_key_create(
            tenant=world.tenant, name=name, scopes=["infer"], created_by=getattr(world, name)
        )
        return key

    keys = [make("developer"), make("viewer"), make("owner")]
    for who, revoke in ((world.developer, False), (world.viewer, True)):
        member = membership_of(who, world.tenant)
        assert member is not None
        member_remove(membership=member, actor=world.owner, revoke_keys=revoke)
    seen = {key.prefix: key for key in api_keys_of(world.tenant)}
    told = [(seen[key.prefix].revoked, getattr(seen[key.prefix], "creator_is_member", None)) for key in keys]
    assert told == [(False, False), (True, False), (False, True)]


def test_leaving_and_removal_are_different_events_and_no_change_is_none(world: World) -> None:
    for who, by in ((world.developer, world.developer), (world.viewer, world.owner)):
        member = membership_of(who, world.tenant)
        assert member is not None
        member_set_role(membership=member, role=member.role, actor=world.owner)
        member_remove(membership=member, actor=by)
        refused(ErrorCode.NOT_FOUND, lambda: member_remove(membership=member))  # noqa: B023
    told = audit_of(world.tenant).filter(verb__startswith="member.").exclude(verb="member.add")
    assert list(told.values_list("verb", "subject", "actor__username")) == [
        ("member.remove", "viewer", "owner"),
        ("member.leave", "developer", "developer"),
    ]


@platform_scope()
def test_one_of_the_owners_who_leave_at_once_stays(committed: World) -> None:
    staff = committed.staff
    for round_number in range(5):
        people = [make_user(f"owner-{round_number}-{n}") for n in range(4)]
        tenant = tenant_create(slug=f"t-{round_number}", name="T", owner=people[0])
        members = [member_add(tenant=tenant, user=who, role="owner") for who in people[1:]]
        members.append(Membership.unscoped.get(tenant=tenant, user=people[0]))
        leave = [lambda m=member: member_remove(membership=m, actor=staff) for member in members[:2]]
        demote = [lambda m=member: member_set_role(membership=m, role="viewer") for member in members[2:]]
        outcomes = at_once(*leave, *demote)
        assert [error.code for error in outcomes if isinstance(error, HmiError)] == [ErrorCode.LAST_OWNER]
        assert Membership.unscoped.filter(tenant=tenant, role="owner").count() == 1


def test_people_who_did_something_cannot_be_deleted(world: World) -> None:
    from django.db.models import ProtectedError

    with pytest.raises(ProtectedError):
        User.objects.get(username="owner").delete()

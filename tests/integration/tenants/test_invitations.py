"""Invitations: who may make them, what they say, and whom they let in."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.core.mail import EmailMessage
from django.utils import timezone
from pytest_django import Settings

from tenants.accounts.models import Invitation, InvitationState, User
from tenants.accounts.selectors import membership_of
from tenants.accounts.services.invitations import (
    invitation_accept,
    invitation_create,
    invitation_resend,
    invitation_withdraw,
    invitations_expire,
)
from tenants.accounts.services.members import member_add
from tenants.accounts.services.tenants import tenant_suspend
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.models import Quota
from tests.integration.tenants.content import audit_of
from tests.integration.versiontree.test_races import at_once
from tests.integration.world import World
from tests.unit.tenants.files import refused

pytestmark = pytest.mark.usefixtures("in_acme_scope")

ADDRESS = "/api/v1/tenants/acme/invitations"
SOMEBODY = "stranger@example.org"


def confirmed_address(world: World) -> EmailAddress:
    """That of the stranger's account."""
    return EmailAddress.objects.create(user=world.stranger, email=SOMEBODY, verified=True, primary=True)


def invite(world: World, email: str = SOMEBODY, role: str = "developer") -> tuple[Invitation, str]:
    return invitation_create(tenant=world.tenant, email=email, role=role, actor=world.owner)


def accept(invitation: Invitation, user: User) -> object:
    return invitation_accept(invitation=invitation, user=user)


def run_out(invitation: Invitation, ago: timedelta = timedelta(0)) -> None:
    Invitation.unscoped.filter(pk=invitation.pk).update(expires_at=timezone.now() - ago)


def test_a_link_works_once_and_only_its_hash_is_stored(world: World) -> None:
    invitation, token = invite(world, " Stranger@Example.org ")
    assert token not in str(Invitation.unscoped.values().get(pk=invitation.pk))
    assert token not in str(list(audit_of(world.tenant).values()))
    assert invitation.email == SOMEBODY
    confirmed_address(world)
    accept(invitation, world.stranger)
    membership = membership_of(world.stranger, world.tenant)
    assert membership is not None
    assert membership.role == "developer"
    assert (
        "already accepted"
        in refused(ErrorCode.INVITATION_OVER, lambda: accept(invitation, world.stranger)).message
    )
    verbs = list(audit_of(world.tenant).values_list("verb", "subject", "actor__username")[:3])
    assert verbs == [
        ("invitation.accept", SOMEBODY, "stranger"),
        ("member.add", "stranger", "stranger"),
        ("invitation.create", SOMEBODY, "owner"),
    ]


def test_an_account_with_another_address_is_refused(world: World) -> None:
    invitation, _ = invite(world, "second@example.org")
    refused(ErrorCode.FORBIDDEN, lambda: accept(invitation, world.stranger))
    added = EmailAddress.objects.create(user=world.stranger, email="Second@example.org", verified=False)
    refused(ErrorCode.FORBIDDEN, lambda: accept(invitation, world.stranger))
    added.verified = True
    added.save()
    accept(invitation, world.stranger)


def test_an_account_with_an_unconfirmed_address_is_refused(world: World) -> None:
    invitation, _ = invite(world)
    confirmed = confirmed_address(world)
    EmailAddress.objects.filter(pk=confirmed.pk).update(verified=False)
    assert world.stranger.email == SOMEBODY
    refused(ErrorCode.FORBIDDEN, lambda: accept(invitation, world.stranger))
    confirmed.delete()
    refused(ErrorCode.FORBIDDEN, lambda: accept(invitation, world.stranger))
    assert membership_of(world.stranger, world.tenant) is None


def test_a_withdrawn_resent_or_expired_link_is_refused(world: World) -> None:
    def over(invitation: Invitation) -> str:
        return refused(ErrorCode.INVITATION_OVER, lambda: accept(invitation, world.stranger)).message

    confirmed_address(world)
    first, token = invite(world)
    second, another = invitation_resend(invitation=first, actor=world.owner)
    assert token != another
    assert "sent again" in over(first)
    run_out(second)
    assert "expired" in over(second)
    third, _ = invitation_resend(invitation=second, actor=world.owner)
    assert invitation_withdraw(invitation=third, actor=world.owner)
    assert not invitation_withdraw(invitation=third, actor=world.owner)
    assert "withdrawn" in over(third)
    refused(ErrorCode.INVITATION_OVER, lambda: invitation_resend(invitation=third, actor=world.owner))
    fourth, _ = invite(world)
    tenant_suspend(tenant=world.tenant, actor=world.staff)
    refused(ErrorCode.FORBIDDEN, lambda: accept(fourth, world.stranger))
    assert membership_of(world.stranger, world.tenant) is None


def test_members_and_invited_people_are_not_invited_again_until_expiry(world: World) -> None:
    assert refused(ErrorCode.CONFLICT, lambda: invite(world, "VIEWER@example.org")).param == "email"
    before, _ = invite(world)
    assert "already invited" in refused(ErrorCode.CONFLICT, lambda: invite(world)).message
    run_out(before)
    invite(world, role="viewer")
    before.refresh_from_db()
    assert before.state == InvitationState.REPLACED


def test_a_member_who_accepts_keeps_the_role(world: World) -> None:
    confirmed_address(world)
    invitation, _ = invite(world, role="owner")
    member_add(tenant=world.tenant, user=world.stranger, role="viewer")
    refused(ErrorCode.CONFLICT, lambda: accept(invitation, world.stranger))
    membership = membership_of(world.stranger, world.tenant)
    assert membership is not None
    assert membership.role == "viewer"


def test_an_invalid_email_address_is_refused(world: World) -> None:
    for email in (" ", "nobody", "a@b.c\nBcc: x@y.org", f"{'a' * 250}@example.org"):
        code = ErrorCode.INVALID_FIELD if email.strip() else ErrorCode.MISSING_FIELD
        assert refused(code, partial(invite, world, email)).param == "email"
    assert refused(ErrorCode.INVALID_FIELD, lambda: invite(world, role="king")).param == "role"


def test_the_daily_quota_counts_resent_and_withdrawn_links(world: World) -> None:
    Quota.unscoped.filter(tenant=world.tenant).update(max_invitations_per_day=3)
    first, _ = invite(world)
    second, _ = invitation_resend(invitation=first, actor=world.owner)
    invitation_withdraw(invitation=second, actor=world.owner)
    invite(world)
    error = refused(ErrorCode.QUOTA_EXCEEDED, lambda: invite(world, "more@example.org"))
    assert error.details == {"quota": "invitations a day", "limit": 3, "used": 3, "asked": 1}
    assert error.retry_after
    Invitation.unscoped.update(created_at=timezone.now() - timedelta(days=1))
    invite(world, "more@example.org")


def test_concurrent_invitations_and_acceptances_succeed_once(committed: World) -> None:
    outcomes = at_once(*[lambda: invite(committed) for _ in range(6)])
    codes = [error.code for error in outcomes if isinstance(error, HmiError)]
    assert codes == [ErrorCode.CONFLICT] * 5
    confirmed_address(committed)
    invitation = Invitation.unscoped.get()
    accepted = at_once(*[lambda: accept(invitation, committed.stranger) for _ in range(6)])
    assert sum(not isinstance(outcome, HmiError) for outcome in accepted) == 1


def test_an_invitation_is_deleted_a_month_after_its_expiry(world: World) -> None:
    old, recent = invite(world)[0], invite(world, "more@example.org")[0]
    run_out(old, timedelta(days=31))
    run_out(recent, timedelta(days=29))
    assert invitations_expire() == 1
    assert Invitation.unscoped.get() == recent


def test_the_link_in_the_message_is_that_of_the_api(world: World, mailoutbox: list[EmailMessage]) -> None:
    owner: Any = world.client(world.owner)
    made = owner.post(ADDRESS, {"email": SOMEBODY, "role": "viewer"})
    assert made.status_code == 201
    assert made.json()["mail"] == "sent"
    (message,) = mailoutbox
    assert message.to == [SOMEBODY]
    assert f"\n{made.json()['link']}\n" in str(message.body)
    seen = owner.get(ADDRESS).json()["results"]
    assert [(row["email"], row["state"], row["expired"]) for row in seen] == [(SOMEBODY, "waiting", False)]
    assert "link" not in seen[0]
    one = f"{ADDRESS}/{seen[0]['id']}"
    again = owner.post(f"{one}/resend")
    assert again.status_code == 201
    assert again.json()["link"] != made.json()["link"]
    assert owner.get(one).json()["state"] == "replaced"
    assert owner.delete(f"{ADDRESS}/{again.json()['id']}").status_code == 204
    assert owner.get(ADDRESS).json()["results"] == []


def test_an_invitation_survives_a_missing_or_failing_mail_server(
    world: World, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    owner: Any = world.client(world.owner)
    made = owner.post(ADDRESS, {"email": SOMEBODY, "role": "viewer"}).json()
    assert made["mail"] == "failed"
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
    other = owner.post(ADDRESS, {"email": "more@example.org", "role": "viewer"}).json()
    assert other["mail"] == "no_server"
    for link in (made["link"], other["link"]):
        assert link.rstrip("/").rpartition("/")[2] not in caplog.text
        assert world.client().get(link, follow=True).status_code == 200

"""Invitations: who may make them, what they say, and whom they let in."""

from datetime import timedelta
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


def test_of_the_token_a_hash_is_stored_and_the_link_works_once(world: World) -> None:
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


def test_it_lets_nobody_in_who_has_another_address(world: World) -> None:
    invitation, _ = invite(world, "second@example.org")
    refused(ErrorCode.FORBIDDEN, lambda: accept(invitation, world.stranger))
    added = EmailAddress.objects.create(user=world.stranger, email="Second@example.org", verified=False)
    refused(ErrorCode.FORBIDDEN, lambda: accept(invitation, world.stranger))
    added.verified = True
    added.save()
    accept(invitation, world.stranger)


def test_an_address_that_an_account_only_says_is_its_own_lets_nobody_in(world: World) -> None:
    invitation, _ = invite(world)
    confirmed = confirmed_address(world)
    EmailAddress.objects.filter(pk=confirmed.pk).update(verified=False)
    assert world.stranger.email == SOMEBODY
    refused(ErrorCode.FORBIDDEN, lambda: accept(invitation, world.stranger))
    confirmed.delete()
    refused(ErrorCode.FORBIDDEN, lambda: accept(invitation, world.stranger))
    assert membership_of(world.stranger, world.tenant) is None


def test_what_was_withdrawn_sent_again_or_ran_out_lets_nobody_in(world: World) -> None:
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


def test_members_and_those_who_are_invited_are_not_invited_again_until_it_ran_out(world: World) -> None:
    assert refused(ErrorCode.CONFLICT, lambda: invite(world, "VIEWER@example.org")).param == "email"
    before, _ = invite(world)
    assert "already invited" in refused(ErrorCode.CONFLICT, lambda: invite(world)).message
    run_out(before)
    invite(world, role="viewer")
    before.refresh_from_db()
    assert before.state == InvitationState.REPLACED


def test_a_member_who_opens_a_link_stays_what_they_were(world: World) -> None:
    confirmed_address(world)
    invitation, _ = invite(world, role="owner")
    member_add(tenant=world.tenant, user=world.stranger, role="viewer")
    refused(ErrorCode.CONFLICT, lambda: accept(invitation, world.stranger))
    membership = membership_of(world.stranger, world.tenant)
    assert membership is not None
    assert membership.role == "viewer"


@pytest.mark.parametrize(
    "email", ["", " ", "nobody", "a@b", "a@b.c\nBcc: x@y.org", "a b@example.org", f"{'a' * 250}@example.org"]
)
def test_an_address_is_one_and_nothing_else(world: World, email: str) -> None:
    code = ErrorCode.INVALID_FIELD if email.strip() else ErrorCode.MISSING_FIELD
    assert refused(code, lambda: invite(world, email)).param == "email"
    assert refused(ErrorCode.INVALID_FIELD, lambda: invite(world, role="king")).param == "role"


def test_so_many_links_are_made_in_a_day_those_sent_again_and_withdrawn_among_them(world: World) -> None:
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


def test_at_once_one_address_is_invited_once_and_a_link_lets_in_once(committed: World) -> None:
    outcomes = at_once(*[lambda: invite(committed) for _ in range(6)])
    codes = [error.code for error in outcomes if isinstance(error, HmiError)]
    assert codes == [ErrorCode.CONFLICT] * 5
    confirmed_address(committed)
    invitation = Invitation.unscoped.get()
    accepted = at_once(*[lambda: accept(invitation, committed.stranger) for _ in range(6)])
    assert sum(not isinstance(outcome, HmiError) for outcome in accepted) == 1


def test_it_is_forgotten_a_month_after_it_ran_out(world: World) -> None:
    old, recent = invite(world)[0], invite(world, "more@example.org")[0]
    run_out(old, timedelta(days=31))
    run_out(recent, timedelta(days=29))
    assert invitations_expire() == 1
    assert Invitation.unscoped.get() == recent


def test_an_owner_invites_over_the_api_and_the_message_leads_where_the_answer_says(
    world: World, mailoutbox: list[EmailMessage]
) -> None:
    owner: Any = world.client(world.owner)
    made = owner.post(ADDRESS, {"email": SOMEBODY, "role": "viewer"})
    assert made.status_code == 201
    assert made.json()["mail"] == "sent"
    (message,) = mailoutbox
    assert (message.to, message.subject) == ([SOMEBODY], "Invitation to Acme on HMI")
    assert f"\n{made.json()['link']}\n" in str(message.body)
    assert "owner invited you to join Acme on HMI as viewer." in str(message.body)
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


def test_a_mail_server_that_is_away_or_absent_loses_no_invitation(
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


def test_only_owners_invite_and_no_key_does(world: World) -> None:
    invitation, _ = invite(world)
    asked = {"email": "more@example.org", "role": "owner"}
    one = f"{ADDRESS}/{invitation.pk}"
    for who, status in {"developer": 403, "viewer": 403, "stranger": 404}.items():
        client: Any = world.client(getattr(world, who))
        answers = (
            client.get(ADDRESS),
            client.post(ADDRESS, asked),
            client.delete(one),
            client.post(f"{one}/resend"),
        )
        assert [answer.status_code for answer in answers] == [status] * 4
    assert world.client(key=world.key()[1]).post(ADDRESS, asked).status_code == 403
    foreign: Any = world.client(world.stranger)
    assert foreign.delete(f"/api/v1/tenants/globex/invitations/{invitation.pk}").status_code == 404
    assert Invitation.unscoped.get().state == InvitationState.WAITING


def test_members_are_seen_changed_and_removed_over_the_api(world: World) -> None:
    address = "/api/v1/tenants/acme/members"
    owner: Any = world.client(world.owner)
    seen = {row["username"]: row for row in world.client(world.viewer).get(address).json()["results"]}
    assert [(name, row["role"]) for name, row in seen.items()] == [
        ("owner", "owner"),
        ("developer", "developer"),
        ("viewer", "viewer"),
    ]
    developer, viewer = (f"{address}/{seen[name]['id']}" for name in ("developer", "viewer"))
    assert world.client(world.developer).patch(viewer, {"role": "owner"}).status_code == 403
    assert world.client(world.developer).delete(viewer).status_code == 403
    assert world.client(key=world.key()[1]).get(address).status_code == 403
    assert owner.patch(viewer, {"role": "king"}).json()["error"]["param"] == "role"
    assert owner.patch(viewer, {"role": "developer"}).json()["role"] == "developer"
    assert owner.delete(developer).status_code == 204
    assert world.client(world.viewer).delete(viewer).status_code == 204
    assert world.client(world.viewer).get(address).status_code == 404
    last = f"{address}/{seen['owner']['id']}"
    assert owner.delete(last).json()["error"]["code"] == "last_owner"
    assert owner.get(last).status_code == 200

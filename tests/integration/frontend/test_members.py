"""The pages of members and of API keys, without a browser."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tenants.accounts.models import ApiKey, Membership, User
from tenants.accounts.services.api_keys import api_key_create, api_key_rotate
from tenants.accounts.services.invitations import invitation_create
from tenants.accounts.services.members import member_add
from tenants.base import ttl_cache
from tenants.base.ttl_cache import TtlCache
from tests.e2e.world import World

MEMBERS, KEYS = "/t/acme/members/", "/t/acme/keys/"


def said(answer: Any) -> str:
    """What the page shows, its markup left out."""
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def number(world: World, name: str) -> int:
    """A member's, in addresses."""
    return int(Membership.unscoped.get(tenant=world.tenant, user=getattr(world, name)).pk)


def test_viewers_see_who_belongs_and_only_owners_what_may_be_done(client: Client, world: World) -> None:
    invitation_create(tenant=world.tenant, email="new@example.org", role="viewer", actor=world.owner)
    for who, sees in (("viewer", False), ("developer", False), ("owner", True)):
        client.force_login(getattr(world, who))
        page = client.get(MEMBERS).content.decode()
        assert "victor" in page
        assert ("new@example.org" in page, "Remove victor" in page) == (sees, sees), who


def test_an_owner_gives_roles_and_removes_with_the_keys_if_asked(owner: Client, world: World) -> None:
    api_key_create(tenant=world.tenant, name="k", scopes=["infer"], created_by=world.developer)
    assert "Also revoke the API key they created" in said(owner.get(MEMBERS))
    page = owner.post(f"{MEMBERS}{number(world, 'viewer')}/role/", {"role": "owner"}, follow=True)
    assert "victor now has the role owner." in said(page)
    page = owner.post(f"{MEMBERS}{number(world, 'developer')}/remove/", {"revoke_keys": "1"}, follow=True)
    assert "Removed dev." in said(page)
    assert ApiKey.unscoped.get().revoked
    assert "no longer a member" in said(owner.get(KEYS))


def test_keys_are_listed_with_the_words_of_their_form(owner: Client, world: World) -> None:
    api_key_create(tenant=world.tenant, name="k", scopes=["infer", "manage"], created_by=world.owner)
    assert "Use models; Manage models, data and domains" in said(owner.get(KEYS))


def test_the_link_is_shown_once_and_what_is_wrong_with_an_address_at_its_field(
    owner: Client, world: World
) -> None:
    asked = {"email": "new@example.org", "role": "viewer"}
    link = owner.post("/t/acme/members/invite/", asked).context["link"]
    page = owner.get(MEMBERS).content.decode()
    assert link not in page
    assert "new@example.org" in page
    again: Any = owner.post("/t/acme/members/invite/", asked)
    assert "already invited" in again.context["form"].errors["email"][0]
    pk = re.findall(r"/t/acme/members/invitations/(\d+)/resend/", page)[0]
    sent: Any = owner.post(f"/t/acme/members/invitations/{pk}/resend/")
    assert sent.context["link"] != link
    withdrawn = re.findall(r"/t/acme/members/invitations/(\d+)/withdraw/", sent.content.decode())[0]
    page = said(owner.post(f"/t/acme/members/invitations/{withdrawn}/withdraw/", follow=True))
    assert "Invitation for new@example.org withdrawn." in page
    assert "invitation" in said(owner.post(f"/t/acme/members/invitations/{pk}/resend/", follow=True))


def test_key_is_shown_once_and_has_no_button_once_revoked(owner: Client, world: World) -> None:
    created: Any = owner.post(f"{KEYS}new/", {"name": "Desk", "scopes": ["infer"], "days": "30"})
    plaintext = created.context["plaintext"]
    assert re.fullmatch(r"\w{8}\.\w{32}", plaintext)
    assert plaintext in said(created)
    listed, revoke = owner.get(KEYS), f"{KEYS}{plaintext.partition('.')[0]}/revoke/"
    assert plaintext not in listed.content.decode()
    assert f'action="{revoke}"' in listed.content.decode()
    page: Any = owner.post(revoke, follow=True)
    assert "API key revoked." in said(page)
    assert revoke not in page.content.decode()
    assert ApiKey.unscoped.get().revoked


def test_a_key_is_rotated_on_its_page_and_both_are_shown_as_linked(owner: Client, world: World) -> None:
    old, _ = api_key_create(tenant=world.tenant, name="Desk", scopes=["infer"], created_by=world.owner)
    page: Any = owner.post(f"{KEYS}{old.prefix}/rotate/", {"overlap": "3600"})
    plaintext = page.context["plaintext"]
    prefix = plaintext.partition(".")[0]
    assert f"replaced by {prefix}…" in said(page)
    assert f"{prefix}… replaces {old.prefix}…" in said(page)
    listed = owner.get(KEYS)
    assert plaintext not in listed.content.decode()
    assert "was already rotated" in said(
        owner.post(f"{KEYS}{old.prefix}/rotate/", {"overlap": "0"}, follow=True)
    )
    assert "Choose how long" in said(owner.post(f"{KEYS}{prefix}/rotate/", {"overlap": "7"}, follow=True))
    ApiKey.unscoped.filter(pk=old.pk).update(expiry_date=timezone.now() - timedelta(days=1))
    assert "Revoked and expired in the last 30 days (1)" in said(owner.get(KEYS))


def test_a_key_ends_with_the_day_that_was_chosen(owner: Client, world: World) -> None:
    day = (timezone.now() + timedelta(days=40)).date()
    fields = {"name": "Desk", "scopes": ["infer"], "days": "date"}
    page: Any = owner.post(f"{KEYS}new/", fields)
    assert page.context["form"].errors == {"until": ["Choose a date."]}
    page = owner.post(f"{KEYS}new/", fields | {"until": "2020-01-01"})
    assert page.context["form"].errors == {"until": ["Choose a day in the future."]}
    owner.post(f"{KEYS}new/", fields | {"until": day.isoformat()})
    expiry = ApiKey.unscoped.get().expiry_date
    assert expiry is not None
    assert expiry - timedelta(days=1) == timezone.now().replace(
        year=day.year, month=day.month, day=day.day, hour=0, minute=0, second=0, microsecond=0
    )


def test_the_pages_cost_no_more_queries_when_there_is_more_to_show(
    owner: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An entry that expires between two looks at a page would cost it a query more.
    monkeypatch.setattr(ttl_cache, "_process_cache", TtlCache(clock=lambda: 0.0))

    def fill(count: int) -> list[int]:
        for n in range(count):
            person = User.objects.create_user(f"person-{count}-{n}")
            member_add(tenant=world.tenant, user=person, role="viewer")
            key, _ = api_key_create(tenant=world.tenant, name="k", scopes=["infer"], created_by=person)
            api_key_rotate(api_key=key, overlap=timedelta(hours=n % 2), actor=world.owner)
            address = f"{person.username}@example.org"
            invitation_create(tenant=world.tenant, email=address, role="viewer", actor=world.owner)
        return [cost(owner, page) for page in (MEMBERS, KEYS)]

    assert fill(2) == fill(12)


def cost(client: Client, address: str) -> int:
    """How many queries a page takes once the caches of the process are filled."""
    client.get(address)
    with CaptureQueriesContext(connection) as seen:
        assert client.get(address).status_code == 200
    return len(seen)

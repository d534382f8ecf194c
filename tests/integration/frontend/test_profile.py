"""The page of the person who is signed in."""

from allauth.account.models import EmailAddress
from django.test import Client

from tests.e2e.world import World


def test_the_profile_leads_to_all_that_a_person_can_change(owner: Client, world: World) -> None:
    EmailAddress.objects.create(user=world.owner, email="o@example.org", primary=True, verified=True)
    page = owner.get("/profile/").content.decode()
    assert world.owner.username in page
    assert "o@example.org" in page
    for address in ("/email/", "/password/change/", "/second-factor/", "/notices/", "/t/acme/"):
        assert f'href="{address}"' in page
    assert world.tenant.name in page
    assert "Owner" in page


def test_every_page_leads_to_the_profile(owner: Client, world: World) -> None:
    assert 'href="/profile/"' in owner.get("/t/acme/").content.decode()


def test_a_person_without_a_tenant_has_a_profile(client: Client, world: World) -> None:
    client.force_login(world.admin)
    assert "No tenant yet" in client.get("/profile/").content.decode()

"""The page of the person who is signed in."""

from django.test import Client

from tests.e2e.world import World


def test_a_person_without_a_tenant_has_a_profile(client: Client, world: World) -> None:
    client.force_login(world.admin)
    assert "No tenant yet" in client.get("/profile/").content.decode()

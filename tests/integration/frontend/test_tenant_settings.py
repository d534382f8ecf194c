"""What an owner decides about the tenant as a whole."""

from django.test import Client

from tenants.accounts.models import Tenant
from tests.e2e.world import World


def test_an_owner_deletes_the_tenant_once_its_name_was_typed(owner: Client, world: World) -> None:
    refused = owner.post("/t/acme/settings/delete/", {"name": "umbra"}, follow=True).content.decode()
    assert "Type acme to delete it." in refused
    assert owner.get("/t/acme/").status_code == 200
    owner.post("/t/acme/settings/delete/", {"name": "acme"})
    assert Tenant.objects.get(slug="acme").deletion_requested_at is not None
    assert owner.get("/t/acme/").status_code == 404
    assert owner.get("/", follow=True).status_code == 200


def test_an_owner_decides_what_is_counted(owner: Client, world: World) -> None:
    def counted() -> bool:
        return "checked" in owner.get("/t/acme/settings/").content.decode().partition("<main")[2]

    assert counted()
    owner.post("/t/acme/settings/", {})
    world.tenant.refresh_from_db()
    assert not world.tenant.checks_answers
    assert not counted()
    owner.post("/t/acme/settings/", {"checks_answers": "on"})
    world.tenant.refresh_from_db()
    assert world.tenant.checks_answers


def test_an_owner_turns_the_keeping_of_texts_on(owner: Client, client: Client, world: World) -> None:
    page = owner.get("/t/acme/settings/").content.decode()
    assert "Keep request texts" in page
    assert 'name="keeps_request_texts" required' not in page
    owner.post("/t/acme/settings/", {"checks_answers": "on", "keeps_request_texts": "on"})
    world.tenant.refresh_from_db()
    assert world.tenant.keeps_request_texts
    client.force_login(world.viewer)
    assert (
        "The request log keeps the first 500 characters" in client.get("/t/acme/settings/").content.decode()
    )
    client.post("/t/acme/settings/", {})
    world.tenant.refresh_from_db()
    assert world.tenant.keeps_request_texts

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

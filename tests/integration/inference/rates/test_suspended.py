"""A tenant that is suspended is refused by whatever door it comes."""

from django.test import Client

from tenants.accounts.services.tenants import tenant_resume, tenant_suspend
from tests.integration.world import World


def test_its_keys_members_and_pages_are_refused_at_once_and_others_are_not(world: World) -> None:
    key, browser = world.client(key=world.key()[1]), Client()
    browser.force_login(world.owner)

    def doors() -> list[int]:
        asked = {"model": "acme/nobody", "inputs": ["a text"]}
        return [
            key.get("/api/v1/datasets").status_code,
            key.post("/api/v1/infer", asked, format="json").status_code,
            world.client(world.owner).get("/api/v1/tenants/acme/datasets").status_code,
            browser.get("/t/acme/").status_code,
            browser.get("/t/acme/keys/").status_code,
        ]

    assert doors() == [200, 404, 200, 200, 200]
    tenant_suspend(tenant=world.tenant, actor=world.staff)
    assert doors() == [403] * 5
    assert world.client(world.stranger).get("/api/v1/tenants/globex/datasets").status_code == 200
    tenant_resume(tenant=world.tenant, actor=world.staff)
    assert doors() == [200, 404, 200, 200, 200]

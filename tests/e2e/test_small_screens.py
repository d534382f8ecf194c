"""What has no room on a phone is still said."""

from playwright.sync_api import Page

from tenants.accounts.services.api_keys import api_key_create
from tenants.accounts.services.invitations import invitation_create
from tenants.webhooks.models import WebhookEndpoint
from tests.e2e.batches import batches_used
from tests.e2e.looking import SIZES
from tests.e2e.webhooks import create_webhooks_and_deliveries
from tests.e2e.world import World

MINOR = """(table) => [...table.querySelectorAll("td.minor:not(.actions)")].map((cell) => {
  const plain = (text) => text.toLowerCase().replace(/\\s+/g, " ").trim();
  const row = plain(cell.closest("tr").innerText);
  const parts = [...cell.childNodes].map((part) => plain(part.textContent));
  return [cell.checkVisibility(), parts.filter((part) => part !== "–" && !row.includes(part)).join(", ")];
})"""
"""Of each cell that is minor: whether it is seen, and what of it nothing that is seen of its row says."""
FITS = "table => table.scrollWidth <= table.parentElement.clientWidth"


def test_columns_that_vanish_stand_below_the_name_of_their_row(signed_in: Page, world: World) -> None:
    tenant, owner = world.tenant, world.owner
    api_key_create(tenant=tenant, name="Desk", scopes=["infer"], created_by=owner, tokens_per_minute=9000)
    invitation_create(tenant=tenant, email="nora@example.org", role="developer", actor=owner)
    create_webhooks_and_deliveries(world)
    batches_used(world)
    hook = WebhookEndpoint.unscoped.earliest("created_at")
    domain = f"domains/{world.domain.domain_id}/"
    lists = ("usage/?by=model", "members/", "webhooks/", f"webhooks/{hook.pk}/", "batches/", "keys/", domain)
    for address in lists:
        signed_in.set_viewport_size(SIZES["phone"])
        signed_in.goto(f"/t/acme/{address}")
        versions = signed_in.locator(".panel", has=signed_in.get_by_role("heading", name="Versions"))
        shown = versions if address == domain else signed_in.locator("main")  # models have pages of their own
        tables = shown.locator(".table").all()
        for table in tables:
            cells = table.evaluate(MINOR)
            assert cells, address
            assert [lost for _, lost in cells if lost] == [], address
            assert not any(seen for seen, _ in cells), address
            assert table.evaluate(FITS), address
        signed_in.set_viewport_size(SIZES["desktop"])
        assert all(seen for table in tables for seen, _ in table.evaluate(MINOR)), address

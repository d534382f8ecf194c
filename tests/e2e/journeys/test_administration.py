"""What administrators do most, in few clicks."""

import pytest
from playwright.sync_api import Page, expect

from tenants.accounts.models import Invitation
from tests.e2e.conftest import Enter
from tests.e2e.journeys.traveller import Traveller, took
from tests.e2e.world import World


@pytest.fixture
def desk(page: Page, enter: Enter, world: World) -> Page:
    """A tab in which an administrator is signed in, at home."""
    enter(world.admin)
    page.goto("/")
    return page


def test_a_tenant_is_made_with_its_owner(desk: Page) -> None:
    person = Traveller(desk, "new tenant with its owner")
    person.click(desk.locator("#nav-sidebar a[href='/admin/accounts/tenant/']"))
    person.click(desk.locator("a[href='/admin/accounts/tenant/add/']").first)
    person.fill(desk.get_by_label("Name"), "Initech Support")
    person.fill(desk.get_by_label("Invite owner by e-mail"), "first@example.org")
    expect(desk.get_by_label("Slug")).to_have_value("initech-support")
    person.click(desk.get_by_role("button", name="Save", exact=True))
    expect(desk.get_by_role("link", name="initech-support", exact=True).first).to_be_visible()
    assert took(person.arrived())[0] == 3
    invitation = Invitation.unscoped.get(tenant__slug="initech-support")
    assert (invitation.email, invitation.role) == ("first@example.org", "owner")


def test_a_tenant_is_opened_read_only_and_left(desk: Page, world: World) -> None:
    person = Traveller(desk, "a tenant's pages, read-only")
    person.click(desk.locator("#nav-sidebar a[href='/admin/accounts/tenant/']"))
    person.click(desk.get_by_role("link", name="acme", exact=True).first)
    person.click(desk.get_by_role("button", name="Open as this tenant"))
    banner = desk.get_by_role("region", name="Read-only view")
    expect(banner).to_contain_text("You are viewing the pages of Acme Pharmacy")
    expect(desk.get_by_role("link", name="Upload data")).to_have_count(0)
    assert took(person.arrived())[0] == 3
    banner.get_by_role("button", name="Leave").click()
    desk.wait_for_url(f"**/admin/accounts/tenant/{world.tenant.pk}/change/")

"""What administrators do with roots and domains, by the pages of the administration."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import Enter
from tests.e2e.world import World
from versiontree.jobs.models import Job


@pytest.fixture
def desk(page: Page, enter: Enter, world: World) -> Page:
    """A tab in which an administrator is signed in, at the list of all that there is."""
    enter(world.admin)
    page.goto("/admin/")
    return page


def field(page: Page, name: str) -> Locator:
    """A field of a form by its label, which may bear a star."""
    return page.get_by_label(re.compile(rf"^{name}\W*$"))


def test_registered_root_is_converted_by_a_job_with_a_page(desk: Page) -> None:
    desk.goto("/admin/tree/root/")
    desk.locator("a[href='/admin/tree/root/add/']").first.click()
    desk.locator("#id_corpus + .select2").click()
    desk.locator(".select2-search__field").fill("plain eng")
    desk.get_by_role("option", name="Plain English").click()
    for name in ("minilm", "roberta"):
        field(desk, "Name").fill(name)
        field(desk, "Source").fill("tiny/another")
        desk.get_by_role("button", name="Register and convert").click()
        if name == "minilm":
            expect(desk.locator("main, #content").first).to_contain_text("already")
    expect(desk.get_by_text("The jobs of roberta:1 are queued.")).to_be_visible()
    job = Job.unscoped.get(version__root__name="roberta", kind="convert")
    desk.locator("#result_list").get_by_role("link", name="roberta", exact=True).click()
    desk.get_by_role("link", name="Convert").first.click()
    desk.wait_for_url(f"**/job/{job.pk}/change/")
    expect(desk.locator("#content, main").first).to_contain_text("Queued")


def test_theme_chosen_in_the_administration_applies_to_pages_of_tenants(desk: Page) -> None:
    desk.get_by_text("admin", exact=True).first.click()
    desk.get_by_text("Dark", exact=True).click()
    desk.goto("/password/change/")  # administrators without a tenant have it, too
    expect(desk.locator("html")).to_have_attribute("data-theme", "dark")

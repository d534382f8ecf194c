"""Journeys of data: a label that the model found wrong, and a model that learns it."""

from playwright.sync_api import Page, expect

from tenants.datasets.models import Dataset
from tests.e2e.conftest import sign_in
from tests.e2e.journeys.traveller import Traveller, took
from tests.e2e.world import World
from tests.integration.versiontree.answered import answers_keep, label_judge


def test_a_mistake_leads_to_its_row_and_the_corrected_data_to_a_new_version(page: Page, world: World) -> None:
    answers_keep(world.hplm, label_judge(lambda n: "refund" if n in (3, 4) else ""))
    person = Traveller(sign_in(page, "olga"), "a label corrected, and the model trained again")
    person.click(page.locator("#model-triage"))
    person.click(page.get_by_role("link", name="v1", exact=True))
    person.click(page.get_by_title("Open this row in Tickets").first)
    person.fill(page.locator("table").get_by_label("Label", exact=True), "refund")
    person.click(page.get_by_role("button", name="Save and train triage again"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("triage v2")
    assert took(person.arrived()) == (4, 1)
    made = Dataset.unscoped.get(name="Tickets-2")
    assert made.report["edited"]["changed"] == 1

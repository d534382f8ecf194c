"""Journeys of data: a label that the model found wrong, and a model that learns it."""

from playwright.sync_api import Page, expect

from tenants.datasets.models import Dataset
from tests.e2e.conftest import sign_in
from tests.e2e.journeys.traveller import Traveller, took
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import TICKETS, World, versions_finish
from tests.integration.versiontree.answered import answers_keep, label_judge
from versiontree.tree.models import Version


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


def test_a_corpus_becomes_a_domain_and_leads_to_a_model_on_it(
    page: Page, world: World, files: TinyFiles
) -> None:
    person = Traveller(sign_in(page, "olga"), "a domain from an own corpus, and a model on it")
    person.click(page.get_by_role("link", name="Data", exact=True))
    person.click(page.get_by_role("link", name="Upload a corpus"))
    text = "\n".join(f"{text}, note {number}" for number in range(420) for text in TICKETS.values())
    person.choose_file(
        page.locator("input[type=file]"),
        {"name": "Help desk notes.txt", "mimeType": "text/plain", "buffer": text.encode()},
    )
    person.click(page.get_by_role("button", name="Save and train a domain"))
    expect(page.get_by_label("Name", exact=True)).to_have_value("help-desk-notes")
    person.click(page.get_by_role("button", name="Create domain"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("help-desk-notes v1")
    with person.resting():
        made = Version.unscoped.get(domain__name="help-desk-notes")
        versions_finish(made, {"further_pretrain": {}, "build_plot": {"rows": 9}}, files=files)
    person.click(page.get_by_role("link", name="New model on it"))
    expect(page.get_by_role("heading", level=1)).to_have_text("New model")
    assert took(person.arrived()) == (6, 0)

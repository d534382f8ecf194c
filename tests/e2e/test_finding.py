"""Lists that are searched and turned over, a batch that is begun, an adapter that comes from elsewhere."""

import pytest
from playwright.sync_api import FilePayload, Page, expect

from benchmarks.serving.over_http.crowd import crowd
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World
from tests.integration.versiontree.transfer.adapters.made import lora_members
from tests.integration.versiontree.transfer.conftest import tried_here
from tests.unit.versiontree.forging import zip_of

__all__ = ["tried_here"]


@pytest.fixture
def many(world: World) -> World:
    """With more models and jobs than a page has."""
    crowd(world.tenant, world.hplm, hplms=40, jobs=40)
    return world


def test_hplms_and_jobs_are_found_by_name_kind_and_state(signed_in: Page, many: World) -> None:
    page, rows = signed_in, signed_in.locator("table").last.locator("tbody tr")
    page.get_by_role("link", name="Models", exact=True).click()
    expect(rows).to_have_count(25)
    page.get_by_role("link", name="Next").click()
    expect(rows).to_have_count(16)
    page.get_by_role("searchbox").fill("crowd-0003")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(rows).to_have_count(10)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Jobs").click()
    page.get_by_role("link", name="Failed", exact=True).click()
    expect(page.get_by_role("link", name="Failed", exact=True)).to_have_attribute("aria-current", "true")
    page.get_by_role("link", name="All", exact=True).click()
    expect(page.get_by_role("link", name="All", exact=True)).to_have_attribute("aria-current", "true")
    page.get_by_label("Kind").select_option("Evaluate")
    page.get_by_role("searchbox").fill("triage")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("triage")


def test_a_batch_is_begun_cancelled_and_deleted(signed_in: Page, world: World) -> None:
    page = signed_in
    page.get_by_role("link", name="Batches", exact=True).click()
    page.get_by_label("Model", exact=True).fill("triag")
    inputs = FilePayload(name="texts.jsonl", mimeType="application/jsonl", buffer=b'"a parcel"\n"a pill"\n')
    page.get_by_label("Inputs").set_input_files(inputs)
    page.get_by_role("button", name="Start batch").click()
    expect(page.locator(".errorlist")).to_have_text("There is no such model.")
    page.get_by_label("Model", exact=True).fill("triage")
    page.get_by_label("Inputs").set_input_files(inputs)
    page.get_by_role("button", name="Start batch").click()
    expect(page.get_by_role("heading", name="texts.jsonl")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_event("response")  # the page looks how far it is, and the question stands
    page.get_by_role("alertdialog").get_by_role("button", name="Cancel").click()
    expect(page.locator("#batch").get_by_role("status")).to_contain_text("Canceled")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Batch texts.jsonl deleted.")).to_be_visible()
    expect(page.get_by_text("No batches yet")).to_be_visible()


@pytest.mark.usefixtures("tried_here")
def test_an_adapter_that_does_not_fit_is_refused_and_one_that_does_becomes_an_hplm(
    signed_in: Page, world: World, files: TinyFiles
) -> None:
    """What was filled in beside the first stays for the second."""
    page = signed_in
    page.goto(f"{page.url.split('/t/')[0]}/t/acme/models/import/")
    page.get_by_role("link", name="adapter").first.click()
    page.get_by_label("Name").fill("from-elsewhere")
    archive = FilePayload(name="adapter.zip", mimeType="application/zip", buffer=b"not a zip file")
    page.get_by_label("Adapter", exact=True).set_input_files(archive)
    page.get_by_label("Parent").select_option(index=1)
    page.get_by_role("button", name="Import").click()
    expect(page.locator(".errorlist, [role=alert]").first).to_be_visible()
    expect(page.get_by_label("Name")).to_have_value("from-elsewhere")
    sound = FilePayload(name="lora.zip", mimeType="application/zip", buffer=zip_of(lora_members(files.root)))
    page.get_by_label("Adapter", exact=True).set_input_files(sound)
    page.get_by_label("Labels").fill("no\nperhaps\nyes")
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("from-elsewhere")
    expect(page.locator("section", has_text="Imported adapter").last).to_contain_text("hub/tiny")
    page.get_by_role("link", name="Evaluate").click()
    expect(page.get_by_role("button", name="Evaluate v1")).to_be_visible()
    page.goto(page.url.partition("versions/")[0])
    expect(page.get_by_role("heading", level=1)).to_have_text("from-elsewhere")
    expect(page.locator("main")).to_contain_text("Text classification with 3 labels")
    expect(page.locator("main")).to_contain_text("Ready")

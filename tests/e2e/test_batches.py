"""A batch that is started, cancelled and deleted."""

from playwright.sync_api import FilePayload, Page, expect

from tests.e2e.world import World


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

"""Creating a model step by step."""

from playwright.sync_api import Page, expect

from tests.e2e.world import World
from versiontree.tree.models import Version
from workers.coverage import coverage_measure


def test_model_wizard_keeps_input_through_back_forward_and_mistakes(signed_in: Page, world: World) -> None:
    page, now = signed_in, signed_in.locator("[aria-current=step]")
    page.goto("/t/acme/models/new/")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose a dataset.")
    page.wait_for_load_state()  # until the scripts have run nobody hears of a choice
    page.get_by_label("Task").select_option("tagging")
    expect(page.get_by_text("No matching datasets")).to_be_visible()
    page.get_by_label("Task").select_option("")
    page.get_by_role("radio", name="Tickets").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(now).to_have_text("Base model")
    expect(page.get_by_role("status")).to_contain_text("Finding the best match for your texts.")
    coverage_measure("dataset", world.dataset.pk)
    recommended = page.locator("label", has_text="Best match for your texts")
    expect(recommended.get_by_role("radio")).to_be_checked()
    page.get_by_role("radio", name="minilm v1").check()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("tickets")
    page.get_by_label("Name", exact=True).fill("triage")
    page.get_by_label("Epochs").first.fill("3")
    page.get_by_role("button", name="Continue").click()
    expect(now).to_have_text("Settings")
    expect(page.locator(".errorlist")).to_contain_text("A model named")
    page.get_by_label("Name", exact=True).fill("complaints")
    page.get_by_role("button", name="Continue").click()
    expect(now).to_have_text("Review")
    page.get_by_role("link", name="Back").click()
    expect(page.get_by_label("Epochs").first).to_have_value("3")
    page.go_back()
    estimate = page.get_by_label("Estimate")
    expect(estimate).to_contain_text("Time until ready")
    expect(page.locator("#curl")).to_contain_text('"settings": {"epochs": 3}')
    page.get_by_role("button", name="Create model").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("complaints")
    made = Version.unscoped.get(hplm__name="complaints", number=2)
    assert (made.parent_id, made.config["settings"]) == (world.root.pk, {"epochs": 3})

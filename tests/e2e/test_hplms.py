"""Creating a model step by step, and a domain from a corpus."""

from playwright.sync_api import Page, expect

from tests.e2e.world import World
from versiontree.tree.models import Version
from workers.coverage import coverage_measure


def test_an_hplm_is_made_step_by_step(signed_in: Page, world: World) -> None:
    """Back, forward and mistakes lose nothing; with the keyboard where that is the question."""
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
    expect(now).to_have_text("Parent")
    expect(page.get_by_role("status")).to_contain_text("Measuring coverage of 2 more tables")
    coverage_measure("dataset", world.dataset.pk)
    recommended = page.locator("label", has_text="recommended")
    expect(recommended).to_contain_text("of the fragments of your texts")
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
    expect(page.get_by_role("heading", level=1)).to_have_text("Fine-tune complaints v1")
    made = Version.unscoped.get(hplm__name="complaints")
    assert (made.parent_id, made.config["settings"]) == (world.root.pk, {"epochs": 3})


def test_a_domain_is_created_from_a_corpus(signed_in: Page) -> None:
    signed_in.goto("/t/acme/domains/new/")
    signed_in.get_by_label("Name", exact=True).fill("pharmacy")
    signed_in.get_by_label("Parent").select_option(label="minilm v1")
    expect(signed_in.get_by_text("Choose a parent and a corpus")).to_be_visible()
    signed_in.get_by_label("Corpus").select_option(index=1)
    estimate = signed_in.get_by_label("Estimate")
    expect(estimate).to_contain_text("Time until ready")
    signed_in.get_by_label("Coverage α").fill("99")
    expect(signed_in.get_by_label("Name", exact=True)).to_have_value("pharmacy")
    signed_in.get_by_role("button", name="Create domain").click()
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("Further pretrain pharmacy v1")
    expect(signed_in.locator("#job")).to_contain_text("Build PLOT")

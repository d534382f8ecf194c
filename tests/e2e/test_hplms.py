"""Creating a model and a domain, and following the job of a model until it is ready."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World, report, start, succeed
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.jobs.services.lifecycle import job_event
from versiontree.tree.models import Version
from workers.coverage import coverage_measure


def create_hplm(page: Page, world: World, name: str) -> None:
    """Name a new model, of which the rest stands in the link, and start it."""
    page.goto(f"/t/acme/models/new/?dataset={world.dataset.pk}&parent={world.domain.pk}")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Create model").click()


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


def test_an_hplm_is_created_and_its_job_followed_until_it_is_ready(
    signed_in: Page, world: World, files: TinyFiles
) -> None:
    create_hplm(signed_in, world, "complaints")
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("Fine-tune complaints v1")
    live = signed_in.locator("#job")
    expect(live).to_contain_text("Queued")
    job = jobs_in_order(Version.unscoped.get(hplm__name="complaints"))[0]
    start(job, 0.25, "train", eta=75)
    expect(live).to_contain_text("25.0%")
    expect(live).to_contain_text("1 min 15 s")
    expect(live).to_contain_text("Model ready in")
    signed_in.get_by_role("link", name="Log", exact=True).focus()
    for step in range(4):
        job_event(job_id=job.pk, kind="metrics", data={"step": step, "loss": 4.0 - step})
    report(job, 0.75, "train")
    expect(live).to_contain_text("75.0%")
    expect(signed_in.get_by_role("link", name="Log", exact=True)).to_be_focused()
    signed_in.get_by_role("link", name="Evaluate").focus()
    succeed(job, files=files)
    expect(live).to_contain_text("Succeeded")
    expect(signed_in.get_by_role("link", name="Evaluate")).to_be_focused()
    expect(signed_in.get_by_role("button", name="Cancel job")).to_have_count(0)
    for after in jobs_in_order(job.version)[1:]:
        start(after)
        succeed(after, files=files)
    expect(live.get_by_role("link", name="Open model")).to_be_visible()
    expect(live).not_to_have_attribute("hx-trigger", re.compile("."))
    # Now nothing replaces it while it is measured.
    chart = live.get_by_role("img", name="loss, from 1 to 4, step 0 to step 3").bounding_box()
    beside = live.locator(".events").bounding_box()
    assert chart is not None
    assert beside is not None
    assert chart["width"] > 1.5 * beside["width"] > 300
    assert chart["y"] == pytest.approx(beside["y"], abs=60), "the events stand beside it"


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

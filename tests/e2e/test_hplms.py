"""Growing the tree: creating a model and a domain, following their jobs, moving an alias, deleting."""

import re

import pytest
from playwright.sync_api import Page, expect

from tenants.audit.models import AuditEvent
from tests.e2e.measures import evaluation
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import WORKER, World, report, start, succeed, versions_finish
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.jobs.services.lifecycle import job_event, job_fail
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import hplm_create, hplm_update
from workers.coverage import coverage_measure

UNMARKED = "rgba(0, 0, 0, 0)"


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


def test_a_page_that_shows_an_ended_job_asks_for_nothing_more(signed_in: Page, world: World) -> None:
    asked: list[str] = []
    signed_in.on("request", lambda request: asked.append(request.url))
    signed_in.goto(f"/t/acme/jobs/{jobs_in_order(world.hplm)[0].pk}/")
    signed_in.wait_for_load_state("networkidle")
    assert [url for url in asked if "progress" in url or "/live/" in url] == []


def test_a_failed_job_says_why_and_can_be_tried_again(signed_in: Page, world: World) -> None:
    version = hplm_create(
        tenant=world.tenant, name="broken", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    job = jobs_in_order(version)[0]
    start(job)
    signed_in.goto(f"/t/acme/jobs/{job.pk}/")
    job_fail(job_id=job.pk, worker=WORKER, code="job_crashed", message="The loss is not a number.")
    expect(signed_in.get_by_role("alert")).to_contain_text("The loss is not a number.")
    signed_in.get_by_role("button", name="Retry").click()
    expect(signed_in.locator("#job")).to_contain_text("Queued")


def test_a_queued_job_is_cancelled_after_a_question(signed_in: Page, world: World) -> None:
    create_hplm(signed_in, world, "regretted")
    signed_in.get_by_role("button", name="Cancel job").click()
    question = signed_in.get_by_role("alertdialog")
    expect(question).to_contain_text("Cancel this job?")
    question.get_by_role("button", name="Go back").click()
    expect(question).to_be_hidden()
    signed_in.get_by_role("button", name="Cancel job").click()
    question.get_by_role("button", name="Cancel job").click()
    expect(signed_in.locator("#job")).to_contain_text("Canceled")


def test_the_tree_shows_what_grew_from_what_and_a_node_opens_its_card(signed_in: Page) -> None:
    signed_in.get_by_role("link", name="Version tree").first.click()
    signed_in.wait_for_load_state()  # a card opens beside the tree once the scripts have run
    tree = signed_in.locator(".tree")
    expect(tree.locator(":scope > li > .node")).to_contain_text("minilm")
    domain = tree.locator("li.domain", has_text="medicine")
    expect(domain.locator("li.model")).to_contain_text("accuracy 44 of 48")
    expect(domain.locator("li.model")).to_contain_text("@default")
    domain.get_by_role("link", name="triage", exact=True).click()
    card = signed_in.get_by_label("Details")
    expect(card).to_contain_text("Parent: medicine v1")
    card.get_by_role("link", name="Open").click()
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("triage")


def test_a_branch_of_the_tree_is_closed_and_opened_and_the_tree_is_searched(signed_in: Page) -> None:
    signed_in.goto("/t/acme/tree/")
    limb = signed_in.get_by_role("button", name="medicine: 1 below")
    limb.click()
    expect(limb).to_have_attribute("aria-expanded", "false")
    expect(signed_in.get_by_role("link", name="triage", exact=True)).to_have_count(0)
    limb.click()
    expect(signed_in.get_by_role("link", name="triage", exact=True)).to_be_visible()
    signed_in.get_by_label("Search by name").fill("absent")
    expect(signed_in.get_by_text("No matches")).to_be_visible()
    signed_in.get_by_label("Search by name").fill("tri")
    found = signed_in.get_by_role("link", name="triage", exact=True)
    expect(found).to_be_visible()
    expect(found).not_to_have_css("background-color", UNMARKED)
    expect(signed_in.get_by_role("link", name="medicine", exact=True)).to_have_css(
        "background-color", UNMARKED
    )
    signed_in.wait_for_url("**/tree/?q=tri")
    signed_in.go_back()
    expect(signed_in.get_by_label("Search by name")).to_have_value("absent")
    expect(signed_in.get_by_text("No matches")).to_be_visible()
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("Version tree")


def test_an_hplm_is_rolled_back_with_one_button_and_a_reason_and_promoted_again(
    signed_in: Page, world: World, files: TinyFiles
) -> None:
    assert world.hplm.hplm is not None
    second = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=world.owner)
    versions_finish(second, {"evaluate": evaluation(right=34)}, files=files)
    signed_in.goto("/t/acme/models/triage/?part=Evaluation")
    expect(signed_in.locator(".compare").get_by_role("row", name="Accuracy")).to_contain_text("44 of 48")
    signed_in.locator("label", has_text="Overview").click()
    versions = signed_in.locator("section", has=signed_in.get_by_role("heading", name="Versions"))
    expect(versions.get_by_role("row", name="v2")).to_contain_text("@default")
    signed_in.get_by_role("button", name="Roll back").first.click()
    question = signed_in.get_by_role("dialog", name="Roll back")
    question.get_by_label("Reason").fill("v2 is worse")
    question.get_by_role("button", name="Roll back").click()
    expect(versions.get_by_role("row", name="v1")).to_contain_text("@default")
    expect(signed_in.get_by_role("button", name="Roll back")).to_have_count(0)
    signed_in.locator("label", has_text="Settings").click()
    expect(signed_in.get_by_text("v2 is worse")).to_be_visible()
    moved = AuditEvent.unscoped.filter(verb="alias.move", actor=world.owner).latest("pk")
    assert moved.detail == {"version": 1, "reason": "v2 is worse"}
    promote(signed_in, "versions/2/compare/1/", "v2", "No, it is not")
    expect(versions.get_by_role("row", name="v2")).to_contain_text("@default")
    promote(signed_in, "versions/1/", "version 1", "It is")
    expect(versions.get_by_role("row", name="v1")).to_contain_text("@default")


def promote(page: Page, where: str, button: str, reason: str) -> None:
    """Where one looks at versions, say why one of them shall answer; the model's page follows."""
    page.goto(f"/t/acme/models/triage/{where}")
    page.get_by_role("button", name=re.compile(f"^Promote.*{button}")).click()
    question = page.get_by_role("dialog", name="Make this version the default?")
    question.get_by_label("Reason").fill(reason)
    question.get_by_role("button", name="Promote").click()


def test_an_alias_is_made_with_a_reason_and_removed(signed_in: Page) -> None:
    signed_in.goto("/t/acme/models/triage/?part=Settings")
    form = signed_in.locator("section", has=signed_in.get_by_role("heading", name="Move an alias"))
    form.get_by_label("Alias").fill("production")
    form.get_by_label("Version").select_option(label="v1")
    form.get_by_role("button", name="Move", exact=True).click()
    expect(form.get_by_label("Reason")).to_be_focused()
    form.get_by_label("Reason").fill("For the shop")
    form.get_by_role("button", name="Move", exact=True).click()
    expect(signed_in.get_by_text("@production now points to version 1")).to_be_visible()
    signed_in.get_by_role("button", name="Remove").click()
    question = signed_in.get_by_role("alertdialog", name="Remove @production?")
    expect(question.get_by_label("Reason")).to_be_focused()
    question.get_by_label("Reason").fill("The shop is closed")
    question.get_by_role("button", name="Remove").click()
    expect(signed_in.get_by_text("@production removed")).to_be_visible()
    signed_in.locator(".tabbed").get_by_text("Settings").click()
    expect(signed_in.get_by_text("v1 \u2192 removed")).to_be_visible()
    expect(signed_in.get_by_text("The shop is closed")).to_be_visible()


def test_a_job_is_cloned_into_a_form_with_its_settings(signed_in: Page, world: World) -> None:
    version = hplm_create(
        tenant=world.tenant,
        name="careful",
        parent=world.domain,
        dataset=world.dataset,
        settings={"learning_rate": 0.0004, "biases": False},
        actor=world.owner,
    )
    signed_in.goto(f"/t/acme/jobs/{jobs_in_order(version)[0].pk}/")
    signed_in.get_by_role("link", name="Duplicate").click()
    review = signed_in.locator("section", has_text="New model")
    for chosen in ("careful-2", "minilm / medicine v1", "Tickets", "0.0004"):
        expect(review).to_contain_text(chosen)
    steps = signed_in.get_by_role("navigation", name="Steps")
    steps.get_by_role("link", name="Settings").click()
    expect(signed_in.get_by_label("Learning rate")).to_have_value("0.0004")
    signed_in.get_by_text("More settings").click()
    expect(signed_in.get_by_label("Biases")).to_have_value("false")


def test_an_hplm_is_deleted_once_its_name_was_typed(signed_in: Page) -> None:
    signed_in.goto("/t/acme/models/triage/?part=Settings")
    signed_in.get_by_role("button", name="Delete").click()
    question = signed_in.get_by_role("alertdialog")
    question.get_by_role("button", name="Delete").click()
    expect(question).to_be_visible()
    question.get_by_label("To confirm, type triage").fill("triage")
    question.get_by_role("button", name="Delete").click()
    expect(signed_in.get_by_role("status")).to_contain_text("triage deleted")
    expect(signed_in.get_by_text("No models yet")).to_be_visible()


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

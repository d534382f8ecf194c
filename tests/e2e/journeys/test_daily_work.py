"""The ways that people go most, from sign-in to what they came for, in few clicks."""

import subprocess

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import sign_in
from tests.e2e.gallery import furnish_kinds
from tests.e2e.journeys.traveller import Traveller, took
from tests.e2e.measures import evaluation, fine_tuning
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World, tickets_file, versions_finish
from tests.integration.versiontree.answered import answers_keep, label_judge
from tests.processes import InferenceWorker
from versiontree.jobs.models import Job, JobKind
from versiontree.tree.models import Alias, Version
from versiontree.tree.services.hplms import hplm_update
from workers.runner import run_job

TEXT = "a drug for the heart of the patient"


def test_own_data_become_a_model_that_answers(
    page: Page, world: World, files: TinyFiles, inference_worker: InferenceWorker
) -> None:
    person = Traveller(sign_in(page, "olga"), "first answer of an own model")
    person.click(page.get_by_role("link", name="Upload data"))
    person.choose_file(
        page.get_by_label("Training file"),
        {"name": "complaints.jsonl", "mimeType": "text/plain", "buffer": tickets_file().getvalue()},
    )
    expect(page.get_by_label("Name", exact=True)).to_have_value("complaints")
    person.click(page.get_by_role("button", name="Check"))
    person.click(page.get_by_role("button", name="Save and create a model"))
    person.click(page.get_by_role("button", name="Create model"))
    expect(page.get_by_role("heading", level=1)).to_have_text("complaints")
    assert took(person.effort) == (5, 0), "to the start of the training"
    with person.resting():
        for made in Version.unscoped.filter(hplm__name="complaints").order_by("number"):
            versions_finish(made, {"evaluate": evaluation(right=44), "fine_tune": fine_tuning()}, files=files)
        page.get_by_text("The trained version answers").wait_for()
    person.click(page.get_by_role("link", name="Try it"))
    person.fill(page.get_by_label("Text", exact=True), TEXT)
    person.click(page.get_by_role("button", name="Send", exact=True))
    expect(page.locator("#answer")).to_contain_text("acme/complaints v2")
    assert took(person.arrived()) == (7, 1)


def test_an_empty_tenant_has_a_quick_answer_about_a_sample(
    page: Page, world: World, inference_worker: InferenceWorker
) -> None:
    """By its own jobs. No page is reloaded by hand."""
    person = Traveller(sign_in(page, "sam"), "quick answer from a sample dataset")
    person.click(page.get_by_role("button", name="Use a sample dataset").first)
    expect(page.get_by_role("heading", level=1)).to_have_text("New model")
    person.click(page.get_by_role("button", name="Create model"))
    first = page.locator("#quick-version")
    expect(first.get_by_role("heading")).to_contain_text("Quick version: waiting")
    with person.resting():
        run_job(Job.unscoped.get(version__tenant__slug="umbra", kind=JobKind.QUICK).pk)
    expect(first.get_by_role("heading")).to_contain_text("Quick version answers; trained version: waiting")
    expect(page.get_by_role("row", name="v1").get_by_text("Quick", exact=True)).to_be_visible()
    person.click(first.get_by_role("link", name="Try it"))
    person.fill(page.get_by_label("Text", exact=True), "My parcel has not arrived.")
    person.click(page.get_by_role("button", name="Send", exact=True))
    expect(page.locator("#answer")).to_contain_text("umbra/sample-support-messages v1")
    assert took(person.arrived()) == (4, 1)


def test_a_model_goes_back_to_the_version_before(page: Page, world: World, files: TinyFiles) -> None:
    """From the home page, in the week after its promotion: seen to be worse by one click, undone by two."""
    assert world.hplm.hplm is not None
    second = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=world.owner)
    versions_finish(second, {"evaluate": evaluation(right=34)}, files=files)
    answers_keep(world.hplm, label_judge(lambda _: ""))
    answers_keep(second, label_judge(lambda n: ("delivery", "refund")[n % 2] if n % 5 < 2 else ""))
    sign_in(page, "olga")
    judging = Traveller(page, "is the new version better")
    judging.click(page.get_by_role("link", name="compare with v1"))
    expect(page.get_by_text("v2 is significantly worse than v1.")).to_be_visible()
    assert took(judging.arrived()) == (1, 0)
    page.go_back()
    person = Traveller(page, "rollback")
    person.click(page.get_by_role("button", name="Roll back: version 1"))
    person.click(page.get_by_role("dialog", name="Roll back").get_by_role("button", name="Roll back"))
    expect(page.get_by_role("button", name="Roll back")).to_have_count(0)
    assert took(person.arrived()) == (2, 0)
    assert Alias.unscoped.get(hplm=world.hplm.hplm, name="default").version_id == world.hplm.pk


def test_two_models_answer_the_same_text(
    page: Page, world: World, files: TinyFiles, inference_worker: InferenceWorker
) -> None:
    furnish_kinds(world, files)
    person = Traveller(sign_in(page, "olga"), "two models compared")
    person.click(page.get_by_role("link", name="Try triage"))
    person.pick(page.get_by_label("Models", exact=True), "topics@default")
    expect(page.get_by_role("list", name="Chosen")).to_contain_text("topics@default")
    person.fill(page.get_by_label("Text", exact=True), TEXT)
    person.click(page.get_by_role("button", name="Send", exact=True))
    expect(page.locator("#answer article")).to_have_count(2)
    assert took(person.arrived()) == (2, 2)


@pytest.mark.usefixtures("inference_worker")
def test_a_key_comes_with_a_call_that_works(page: Page, world: World) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    person = Traveller(sign_in(page, "olga"), "a key and a working call")
    person.click(page.get_by_role("link", name="API keys"))
    person.fill(page.get_by_label("Name"), "Help desk")
    person.click(page.get_by_role("button", name="Create key"))
    person.click(page.locator(".snippet", has=page.locator("#first-call")).get_by_role("button", name="Copy"))
    copied = page.wait_for_function("navigator.clipboard.readText()").json_value()
    answer = subprocess.run(["sh", "-c", copied], capture_output=True, text=True, check=True)
    assert '"acme/triage"' in answer.stdout or '"results"' in answer.stdout, answer
    assert took(person.arrived()) == (3, 1)
    plaintext = page.locator("#new-key").text_content()
    page.reload()
    expect(page.get_by_role("row", name="Help desk")).to_have_count(1)
    assert plaintext
    assert plaintext not in page.content()

"""Changing what is there: data, domains, models, settings, one's own password."""

import pytest
from playwright.sync_api import Page, expect

from tenants.datasets.services.datasets import dataset_upload
from tests.e2e.conftest import Enter
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import PASSWORD, World, tickets_file, versions_finish
from tests.integration.versiontree.transfer.conftest import tried_here
from versiontree.jobs.models import Job
from versiontree.tree.services.domains import domain_create

__all__ = ["tried_here"]


def delete(page: Page) -> None:
    """Press the button, and answer its question."""
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()


def test_data_is_deleted_unless_an_hplm_was_made_from_it(signed_in: Page, world: World) -> None:
    signed_in.goto(f"/t/acme/data/corpora/{world.corpus.pk}/")
    delete(signed_in)
    expect(signed_in.get_by_role("status")).to_contain_text("Leaflets")
    expect(signed_in.get_by_role("link", name="Leaflets")).to_have_count(0)
    signed_in.get_by_role("link", name="Tickets").click()
    delete(signed_in)
    expect(signed_in.locator(".notice.danger")).to_contain_text("in use")
    signed_in.goto("/t/acme/data/")
    expect(signed_in.get_by_role("link", name="Tickets")).to_be_visible()


def test_an_hplm_is_updated_with_new_data_of_its_own_task(signed_in: Page, world: World) -> None:
    upload = {"train": ("tickets-of-june.jsonl", tickets_file())}
    dataset_upload(
        tenant=world.tenant, name="Tickets of June", task="classification", files=upload, actor=world.owner
    )
    signed_in.goto("/t/acme/models/triage/")
    signed_in.get_by_role("link", name="Update").click()
    signed_in.get_by_label("Dataset").select_option(label="Tickets of June (text classification, 240 rows)")
    signed_in.get_by_role("button", name="Create version").click()
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("Fine-tune triage v2")


def test_what_an_hplm_is_for_is_written_down_and_told_by_its_page_and_its_card(signed_in: Page) -> None:
    said = {"Description": "Sorts letters, and tells what they want.", "License": "CC-BY-4.0"}
    signed_in.goto("/t/acme/models/triage/")
    signed_in.get_by_role("link", name="Edit").click()
    for label, words in said.items():
        signed_in.get_by_label(label).fill(words)
    signed_in.get_by_role("button", name="Save").click()
    about = signed_in.locator("section", has=signed_in.get_by_role("heading", name="About"))
    for words in said.values():
        expect(about).to_contain_text(words)
    about.get_by_role("link", name="Model card").click()
    expect(signed_in.locator("#card")).to_contain_text(said["Description"])
    signed_in.goto("/t/acme/models/triage/edit/")
    expect(signed_in.get_by_label("Description")).to_have_value(said["Description"])
    signed_in.get_by_label("Description").fill("")
    signed_in.get_by_role("button", name="Save").click()
    expect(about).not_to_contain_text("letters")


def test_a_domain_of_ones_own_makes_one_further_version_at_a_time(
    signed_in: Page, world: World, files: TinyFiles
) -> None:
    made = domain_create(
        tenant=world.tenant, parent=world.root, name="pharmacy", corpus=world.corpus, actor=world.owner
    )
    versions_finish(made, files=files)
    signed_in.goto(f"/t/acme/domains/{made.domain_id}/")
    signed_in.get_by_role("link", name="Update").click()
    signed_in.get_by_label("Corpus").select_option(index=1)
    signed_in.get_by_role("button", name="Create version").click()
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("Further pretrain pharmacy v2")


def test_an_exported_version_is_imported_under_a_name_that_is_free(signed_in: Page, tried_here: None) -> None:
    signed_in.goto("/t/acme/models/triage/versions/1/")
    with signed_in.expect_download() as download:
        signed_in.locator("a[download]").first.click()
    content = download.value.path().read_bytes()
    signed_in.goto("/t/acme/models/import/")
    for name in ("triage", "triage-again"):
        signed_in.get_by_label("Archive").set_input_files(
            {"name": "triage.zip", "mimeType": "application/zip", "buffer": content}
        )
        signed_in.get_by_label("Name").fill(name)
        signed_in.get_by_role("button", name="Import").click()
        if name == "triage":
            expect(signed_in.locator(".errorlist")).to_contain_text("triage")
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("triage-again v1")
    expect(signed_in.get_by_text("Ready", exact=True).first).to_be_visible()


def test_an_owner_turns_answer_checks_off_and_a_viewer_only_reads_that(
    signed_in: Page, enter: Enter, world: World
) -> None:
    signed_in.goto("/t/acme/settings/")
    signed_in.get_by_label("Check a sample of answers").uncheck()
    signed_in.get_by_role("button", name="Save").first.click()
    expect(signed_in.get_by_role("status")).to_contain_text("Settings saved")
    expect(signed_in.get_by_label("Check a sample of answers")).not_to_be_checked()
    enter(world.viewer)
    signed_in.goto("/t/acme/settings/")
    expect(signed_in.get_by_text("No answers are checked")).to_be_visible()


def test_a_viewer_is_offered_nothing_that_would_be_refused(page: Page, enter: Enter, world: World) -> None:
    enter(world.viewer)
    job = Job.unscoped.filter(version=world.hplm).first()
    assert job is not None
    for address in ("", "models/triage/", "data/", f"domains/{world.domain.domain_id}/", f"jobs/{job.pk}/"):
        page.goto(f"/t/acme/{address}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        for form in page.locator("main form[method=post], main .dialog").all():
            pytest.fail(f"{address} offers {form.inner_html()}")


def test_a_new_password_is_the_one_that_counts(signed_in: Page, world: World) -> None:
    signed_in.goto("/password/change/")
    new = "a longer horse, another battery"
    for label, value in (
        ("Current password", PASSWORD),
        ("New password", new),
        ("Repeat the new password", new),
    ):
        signed_in.get_by_label(label, exact=True).fill(value)
    signed_in.get_by_role("button", name="Change password").click()
    expect(signed_in.get_by_role("status")).to_be_visible()
    signed_in.get_by_role("button", name="Sign out").click()
    signed_in.get_by_label("User name").fill(world.owner.username)
    signed_in.get_by_label("Password").fill(new)
    signed_in.keyboard.press("Enter")
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("Acme Pharmacy")

"""What a version got wrong, and what another one answers otherwise."""

import csv
import io
import re

from playwright.sync_api import Page, expect

from tests.e2e.measures import evaluation
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World, versions_finish
from tests.integration.versiontree.answered import answers_keep, label_judge
from versiontree.jobs.models import Job
from versiontree.tree.services.hplms import hplm_update


def saved(page: Page, button: str) -> list[list[str]]:
    """The lines of the file that a link saves."""
    with page.expect_download() as download:
        page.get_by_role("link", name=button).click()
    return list(csv.reader(io.StringIO(download.value.path().read_text("utf-8-sig"))))


def test_mistakes_are_looked_through_saved_and_held_against_another_version(
    signed_in: Page, world: World, files: TinyFiles
) -> None:
    page, rows = signed_in, signed_in.locator("table.answered tbody tr")
    assert world.hplm.hplm is not None
    second = hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, actor=world.owner)
    versions_finish(second, {"evaluate": evaluation(right=34)}, files=files)
    answers_keep(world.hplm, label_judge(lambda n: "refund" if n == 2 else ""))
    page.goto("/t/acme/models/triage/versions/2/answers/")
    expect(page.get_by_text("did not store its answers")).to_be_visible()
    page.get_by_role("button", name="Evaluate").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Evaluate triage v2")
    assert Job.unscoped.filter(version=second, kind="evaluate").count() == 2
    answers_keep(second, label_judge(lambda n: "delivery" if n < 8 else ""))
    page.goto("/t/acme/models/triage/versions/2/")
    page.get_by_role("link", name=re.compile(r"^All \d")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Mistakes")
    page.wait_for_load_state()  # the heading comes before the rows
    wrong = rows.count()
    assert 0 < wrong <= 8
    page.get_by_label("expected").select_option("refund")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**gold=refund**")
    expect(page.get_by_label("expected")).to_have_value("refund")
    assert 0 < rows.count() < wrong
    assert len(saved(page, "Download CSV")) == 1 + rows.count()
    page.get_by_label("Show").select_option("all answers")
    page.get_by_label("expected").select_option("anything")
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_url("**wrong=0**")
    assert rows.count() > wrong
    page.get_by_role("link", name="v1", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("v2 compared with v1")
    broken = page.get_by_role("navigation", name="Filter").get_by_role("link", name="Broken")
    broken.click()
    expect(broken).to_have_attribute("aria-current", "true")
    page.wait_for_load_state()
    changes = rows.locator(".badge").all_text_contents()
    assert changes
    assert set(changes) == {"Broken"}
    assert len(saved(page, "Download CSV")) == 1 + len(changes)

"""The home page and the list of jobs: what changes by itself while jobs are at work, and what stays."""

import re

from playwright.sync_api import Page, expect

from tests.e2e.looking import SIZES, picture
from tests.e2e.world import WORKER, World, report, start
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.jobs.models import Job
from versiontree.jobs.services.lifecycle import job_fail
from versiontree.tree.services.hplms import hplm_create

SELECTED = "getSelection().toString()"
SELECT = """getSelection().selectAllChildren(document.querySelector("#running td.wide small"))"""


def created(world: World, name: str) -> Job:
    version = hplm_create(
        tenant=world.tenant, name=name, parent=world.domain, dataset=world.dataset, actor=world.owner
    )
    return jobs_in_order(version)[0]


def test_the_home_page_and_the_list_follow_jobs_and_leaves_focus_and_selection_where_they_are(
    signed_in: Page, world: World
) -> None:
    job = created(world, "complaints")
    signed_in.clock.install()
    signed_in.goto("/t/acme/")
    tile = signed_in.locator(".tile", has_text="Running jobs")
    expect(tile.locator("dd")).to_have_text(re.compile(r"^2\D"))
    link = signed_in.get_by_role("link", name="complaints v1").first
    link.focus()
    start(job, 0.25, "train", eta=75)
    expect(signed_in.locator("#running")).to_contain_text("train")
    expect(link).to_be_focused()

    signed_in.set_viewport_size(SIZES["phone"])
    expect(signed_in.get_by_text("1 min 15 s left")).to_be_visible()
    expect(signed_in.get_by_role("link", name="Try triage")).to_be_visible()
    picture(signed_in, "home-phone")
    signed_in.set_viewport_size(SIZES["desktop"])

    stage = signed_in.locator("#running td.wide small").first
    signed_in.evaluate(SELECT)  # in one step, since the rows are replaced
    report(job, 0.5, "dev")
    with signed_in.expect_response("**/running/*"):
        signed_in.clock.fast_forward(2000)
    assert signed_in.evaluate(SELECTED) == "train"
    signed_in.evaluate("getSelection().removeAllRanges()")
    expect(stage).to_have_text("dev")

    job_fail(job_id=job.pk, worker=WORKER, code="out_of_disk", message="No room.")
    expect(signed_in.locator("#running")).to_contain_text("Recently finished")
    expect(signed_in.locator("#running")).to_contain_text("No room.")
    expect(tile.locator("dd")).to_have_text(re.compile(r"^0\D"))
    newest = signed_in.locator("#rest tbody tr").first
    expect(newest).to_contain_text("complaints")
    expect(newest).to_contain_text("Failed")

    picture(signed_in, "home-just-ended")

    wards = created(world, "wards")
    signed_in.clock.fast_forward(10_000)
    expect(signed_in.locator("#running")).to_contain_text("wards")
    expect(newest).to_contain_text("wards")

    signed_in.goto("/t/acme/jobs/")
    finished = signed_in.locator("#finished")
    expect(finished).not_to_contain_text("wards")
    start(wards)
    job_fail(job_id=wards.pk, worker=WORKER, code="out_of_disk", message="No room.")
    expect(finished).to_contain_text("wards")

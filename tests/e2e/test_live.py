"""A job followed live: by server-sent events from the web server as the launcher starts it, through a reload
and a restart, and by asking where events do not come through."""

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.e2e.world import WORKER, World, report, start
from tests.integration.serving_faults.servers import Web
from tests.integration.versiontree.tree_factory import jobs_in_order
from versiontree.jobs.models import Job
from versiontree.jobs.services.lifecycle import job_event, job_succeed
from versiontree.tree.services.hplms import hplm_create

LIVE, POLLING = "Live", "This page refreshes every 2 seconds"


@pytest.fixture
def job(world: World) -> Job:
    """A fine-tuning that is in the queue."""
    version = hplm_create(
        tenant=world.tenant, name="complaints", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    return jobs_in_order(version)[0]


def opened(context: BrowserContext, job: Job) -> Page:
    """The page of the job in a new tab."""
    page = context.new_page()
    page.goto(f"/t/acme/jobs/{job.pk}/")
    return page


def told(page: Page) -> list[str]:
    """The lines of the events panel, the oldest first, without their times: day, month and hour."""
    return [" ".join(line.split()[3:]) for line in reversed(page.locator(".events li").all_inner_texts())]


def test_a_job_is_followed_live_through_a_reload_and_no_event_is_lost_or_repeated(
    at_web: BrowserContext, job: Job
) -> None:
    page = opened(at_web, job)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    expect(page.locator(".live-mode")).to_have_text(LIVE)
    expect(page.locator("#job")).to_contain_text("First in line")
    start(job, 0.25, "train", eta=75)
    expect(page.locator("#job")).to_contain_text("25.0%")
    job_event(job_id=job.pk, kind="note", message="first")
    expect(page.locator(".events")).to_contain_text("first")
    page.reload()
    job_event(job_id=job.pk, kind="note", message="second")
    expect(page.locator(".events")).to_contain_text("second")
    report(job, 0.75, "train")
    expect(page.locator("#job")).to_contain_text("75.0%")
    assert told(page) == ["queued", "running", "note first", "note second"]
    job_succeed(job_id=job.pk, worker=WORKER, metrics={}, artifacts=[])
    expect(page.locator("#job")).to_contain_text("Succeeded")
    expect(page.get_by_role("button", name="Cancel job")).to_have_count(0)
    expect(page.locator(".live-mode")).to_be_hidden()
    assert [url for url in asked if "progress" in url] != []


def test_the_web_server_stops_in_order_though_pages_follow_and_they_catch_up_when_it_is_back(
    at_web: BrowserContext, web: Web, job: Job
) -> None:
    page = opened(at_web, job)
    expect(page.locator(".live-mode")).to_have_text(LIVE)
    web.stop()
    assert "Killing" not in web.output()
    page.wait_for_event("requestfailed", lambda request: "/progress/" in request.url)
    job_event(job_id=job.pk, kind="note", message="meanwhile")
    web.start()
    expect(page.locator(".live-mode")).to_have_text(LIVE, timeout=60_000)
    expect(page.locator(".events")).to_contain_text("meanwhile")
    assert told(page).count("note meanwhile") == 1


def test_page_without_events_polls_and_shows_a_notice(at_web: BrowserContext, job: Job) -> None:
    at_web.route("**/live/**", lambda route: route.abort())
    page = opened(at_web, job)
    expect(page.locator(".live-mode")).to_contain_text(POLLING)
    start(job, 0.5, "train")
    expect(page.locator("#job")).to_contain_text("50.0%")
    job_succeed(job_id=job.pk, worker=WORKER, metrics={}, artifacts=[])
    expect(page.locator("#job")).to_contain_text("Succeeded")
    expect(page.locator(".live-mode")).to_be_hidden()

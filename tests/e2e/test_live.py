"""A job followed live: by server-sent events from the web server as the launcher starts it, through a reload
and a restart, and by asking where events do not come through."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect
from pytest_django import Settings

from hmi_site.embedded.process import Child
from hmi_site.launcher import children
from hmi_site.launcher.ports import choose_port
from tenants.models import Membership
from tenants.services.members import member_add, member_remove
from tests.e2e.browser import patient
from tests.e2e.conftest import DESKTOP
from tests.e2e.world import WORKER, World, report, start
from tests.integration.versiontree.grove import jobs_in_order
from tests.services import running
from tests.services import start as start_server
from versiontree.models import Job
from versiontree.services.hplms import hplm_create
from versiontree.services.jobs import job_event, job_succeed

LIVE, POLLING = "Live: this page shows changes", "this page asks every 2 seconds"


@dataclass
class Web:
    """A web server that the test may stop and start."""

    address: str
    child: Child
    ready: children.Ready

    @property
    def session_cookie(self) -> str:
        """What its cookies are called."""
        return f"hmi_session_{self.address.rpartition(':')[2]}"


@pytest.fixture
def web(world: World, service_env: dict[str, str], settings: Settings, tmp_path: Path) -> Iterator[Web]:
    """One with fewer threads, and fewer connections to the database, than pages that follow a job."""
    settings.HMI_WEB_THREADS, settings.HMI_LOG_ROOT = 2, tmp_path
    port = choose_port("127.0.0.1", 18_900)
    child, ready = children.web(port.address, port.number)
    child.env = {**child.env, **service_env, "HMI_DB_POOL": "2", "HMI_INFER_CAPACITY": "1"}
    with port.claim, running(child, ready):
        yield Web(f"http://{port.address}:{port.number}", child, ready)


@pytest.fixture
def following(browser: Browser, web: Web, world: World) -> Iterator[BrowserContext]:
    """A browser in which the owner is signed in there."""
    client = Client()
    client.force_login(world.owner)
    session = client.cookies[django_settings.SESSION_COOKIE_NAME].value
    context = patient(browser.new_context(base_url=web.address, viewport=DESKTOP))
    context.add_cookies([{"name": web.session_cookie, "value": session, "url": web.address}])
    yield context
    context.close()


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
    """The lines of the events panel, the oldest first."""
    return [" ".join(line.split()[1:]) for line in reversed(page.locator(".events li").all_inner_texts())]


def test_a_job_is_followed_live_through_a_reload_and_no_event_is_lost_or_repeated(
    following: BrowserContext, job: Job
) -> None:
    page = opened(following, job)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    expect(page.locator(".live-mode")).to_contain_text(LIVE)
    expect(page.locator("#job")).to_contain_text("Place in the queue")
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


def test_more_pages_follow_jobs_than_the_web_server_has_threads(following: BrowserContext, job: Job) -> None:
    pages = [opened(following, job) for _ in range(4)]
    for page in pages:
        expect(page.locator(".live-mode")).to_contain_text(LIVE)
    start(job, 0.5, "train")
    for page in pages:
        expect(page.locator("#job")).to_contain_text("50.0%")


def test_the_web_server_stops_in_order_though_pages_follow_and_they_catch_up_when_it_is_back(
    following: BrowserContext, web: Web, job: Job
) -> None:
    page = opened(following, job)
    expect(page.locator(".live-mode")).to_contain_text(LIVE)
    web.child.stop()
    assert "Killing" not in web.child.log.read_text()
    job_event(job_id=job.pk, kind="note", message="meanwhile")
    start_server(web.child, web.ready)
    expect(page.locator(".live-mode")).to_contain_text(LIVE, timeout=60_000)
    expect(page.locator(".events")).to_contain_text("meanwhile")
    assert told(page).count("note meanwhile") == 1


def test_where_events_do_not_come_through_the_page_asks_and_says_so(
    following: BrowserContext, job: Job
) -> None:
    following.route("**/live/**", lambda route: route.abort())
    page = opened(following, job)
    expect(page.locator(".live-mode")).to_contain_text(POLLING)
    start(job, 0.5, "train")
    expect(page.locator("#job")).to_contain_text("50.0%")
    job_succeed(job_id=job.pk, worker=WORKER, metrics={}, artifacts=[])
    expect(page.locator("#job")).to_contain_text("Succeeded")
    expect(page.locator(".live-mode")).to_be_hidden()


def test_a_member_who_is_removed_while_the_page_follows_a_job_sees_it_no_more(
    following: BrowserContext, world: World, job: Job
) -> None:
    page = opened(following, job)
    expect(page.locator(".live-mode")).to_contain_text(LIVE)
    member_add(tenant=world.tenant, user=world.admin, role="owner")
    member_remove(membership=Membership.unscoped.get(tenant=world.tenant, user=world.owner))
    expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing here")

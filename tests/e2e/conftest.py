"""A real browser against the running site."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from django.conf import settings as django_settings
from django.test import Client, override_settings
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    ViewportSize,
    WebError,
    sync_playwright,
)
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from hmi_site.launcher.web_server import choose_port
from inference.api.admission import close_gateway
from tenants.accounts.models import User
from tests.e2e.axe import axe_source
from tests.e2e.browser import ARGUMENTS, chromium, patient
from tests.e2e.looking import Looker
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import PASSWORD, World
from tests.e2e.world_snapshots import WorldSnapshots
from tests.integration.serving_faults.servers import Web
from tests.processes import InferenceWorker, wait_until
from tests.services import environment_of_services

EXPECTED = (
    "status of 4",  # refusals are pages, too
    "Error Code 4",
    "[object Event]",  # htmx calls a server that streams nothing an error,
    "htmx:sendAbort",  # and a page that is left while it asks for something,
    "htmx:afterRequest",  # which it says before any error
)
AWAY = ("net::ERR_", "status of 503", "htmx:sendError")
"""What the console says of a server that is dead, or stops: the browser, then htmx where a page asks."""
MEANT = ("status of 500", "status of 503", "net::ERR_FAILED")
"""What it says on pages that show a fault, or an upload whose connection broke."""
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
TELL_OF_THE_POLICY = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`forbidden by the policy: ${event.effectiveDirective} ${event.blockedURI}`))"""
Enter = Callable[[User | None], None]
"""Makes the tabs those of somebody, or of nobody."""


@pytest.fixture(autouse=True)
def default_scope(in_platform_scope: None) -> None:
    """Tests prepare and read rows of all tenants; the browser sees those of one."""


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests here: as long as it is there, nothing else in this thread may run an event
    loop."""
    executable = chromium()
    # Playwright's synchronous API keeps an idle event loop in this thread; Django takes that for async code.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@dataclass
class Watch:
    """What a page must never do: complain on the console, do what its content policy forbids, or ask another
    host for anything."""

    host: str
    expected: tuple[str, ...] = EXPECTED
    faults: list[str] = field(default_factory=list)

    def console(self, message: ConsoleMessage) -> None:
        """Note an error on the console."""
        if message.type == "error" and not any(known in message.text for known in self.expected):
            self.faults.append(f"console: {message.text}")

    def script(self, error: WebError) -> None:
        """Note an error of a script that nothing caught."""
        self.faults.append(f"script: {error.error.message}")

    def request(self, request: Request) -> None:
        """Note a request that leaves the site."""
        address = urlsplit(request.url)
        if address.scheme in ("http", "https") and address.netloc != self.host:
            self.faults.append(f"asked another host: {request.url}")


@contextmanager
def profile(browser: Browser, url: str, watch: Watch) -> Iterator[BrowserContext]:
    """A fresh browser profile for the site at an address; fails at its end if a page broke a rule that holds
    for all pages."""
    context = patient(browser.new_context(base_url=url, viewport=DESKTOP, locale="en-GB"))
    context.add_init_script(TELL_OF_THE_POLICY)
    context.on("console", watch.console)
    context.on("request", watch.request)
    context.on("weberror", watch.script)
    yield context
    context.close()
    assert watch.faults == []


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> TinyFiles:
    """Artifacts that an inference worker can serve."""
    return TinyFiles(tmp_path_factory.mktemp("files") / "checkpoint")


@pytest.fixture(scope="session")
def snapshots(files: TinyFiles, tmp_path_factory: pytest.TempPathFactory) -> WorldSnapshots:
    """Builds the world once and restores it for each test."""
    return WorldSnapshots(files, tmp_path_factory.mktemp("snapshot"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the artifacts and uploads of a file of tests are: the processes that outlive a test know it."""
    return tmp_path_factory.mktemp("folders")


@pytest.fixture
def artifact_root(folders: Path, settings: Settings) -> Path:
    """The artifact root of the tests of this file, emptied."""
    settings.HMI_ARTIFACT_ROOT = emptied(folders / "artifacts")
    return Path(settings.HMI_ARTIFACT_ROOT)


@pytest.fixture
def upload_root(folders: Path, settings: Settings) -> Path:
    """The upload root of the tests of this file, emptied."""
    settings.HMI_UPLOAD_ROOT = emptied(folders / "uploads")
    return Path(settings.HMI_UPLOAD_ROOT)


@pytest.fixture
def world(
    transactional_db: None,
    redis_client: redis.Redis,
    artifact_root: Path,
    upload_root: Path,
    snapshots: WorldSnapshots,
) -> Iterator[World]:
    """A tenant with an owner, a developer and a viewer, a stranger, and a small version tree."""
    yield snapshots.world(redis_client, (artifact_root, upload_root))
    close_gateway()  # it must not outlive the Valkey that it reads from


@pytest.fixture(scope="module")
def running_worker(redis_url: str, folders: Path) -> Iterator[InferenceWorker]:
    """An inference worker in a process of its own, from the first test of a file that wants it."""
    # Long enough that a machine may stall without taking it for dead.
    worker = InferenceWorker(redis_url, folders / "artifacts", life_s=15)
    yield worker
    worker.kill()


@pytest.fixture
def inference_worker(running_worker: InferenceWorker, world: World) -> InferenceWorker:
    """That worker, ready to answer: it may have begun before there was anything to serve."""

    def serves() -> bool:
        status = running_worker.status()
        return status is not None and world.root.digest in status.root_digests

    running_worker.wait_until_ready()
    wait_until(serves, running_worker)
    return running_worker


@pytest.fixture(scope="module")
def running_web(django_db_setup: None, redis_url: str, folders: Path) -> Iterator[Web]:
    """The web server as the launcher starts it, from the first test of a file that wants it: with fewer
    threads, and fewer connections to the database, than pages that follow a job. Tests may kill it."""
    port = choose_port("127.0.0.1", 18_700)
    roots = {"HMI_ARTIFACT_ROOT": folders / "artifacts", "HMI_UPLOAD_ROOT": folders / "uploads"}
    with port.listener, override_settings(HMI_WEB_THREADS=2, **roots):
        env = {**environment_of_services(redis_url), "HMI_INFER_CAPACITY": "1"}
        web = Web(port, env, folders / "web.log")
        web.start()
        yield web
        web.stop()


@pytest.fixture
def web(running_web: Web, world: World) -> Web:
    """That server, which runs whatever the test before did to it."""
    if not running_web.runs():
        running_web.start()
    return running_web


@pytest.fixture
def at_web(browser: Browser, web: Web, world: World) -> Iterator[BrowserContext]:
    """A browser in which the owner is signed in there. Its console may say that the server is away."""
    client = Client()
    client.force_login(world.owner)
    session = client.cookies[django_settings.SESSION_COOKIE_NAME].value
    name, watch = f"hmi_session_{urlsplit(web.url).port}", Watch(urlsplit(web.url).netloc, EXPECTED + AWAY)
    with profile(browser, web.url, watch) as context:
        context.add_cookies([{"name": name, "value": session, "url": web.url}])
        yield context


@pytest.fixture
def watch(live_server: LiveServer) -> Watch:
    """What pages of the site did that they must not."""
    return Watch(urlsplit(live_server.url).netloc)


@pytest.fixture
def context(browser: Browser, live_server: LiveServer, watch: Watch) -> Iterator[BrowserContext]:
    """A browser of its own for the test."""
    with profile(browser, live_server.url, watch) as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """An empty tab."""
    return context.new_page()


@pytest.fixture
def enter(context: BrowserContext, live_server: LiveServer) -> Enter:
    """Become somebody, or nobody, without the form."""

    def become(user: User | None) -> None:
        context.clear_cookies()
        if user is not None:
            client = Client()
            client.force_login(user)
            name = django_settings.SESSION_COOKIE_NAME
            context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_server.url}])

    return become


@pytest.fixture
def signed_in(page: Page, enter: Enter, world: World) -> Page:
    """A tab in which the owner is signed in, at the home of the tenant."""
    enter(world.owner)
    page.goto(f"/t/{world.tenant.slug}/")
    return page


@pytest.fixture(scope="module")
def seen() -> set[str]:
    """The routes of all pages that the tests of a file looked at."""
    return set()


@pytest.fixture
def looker(page: Page, watch: Watch, pytestconfig: pytest.Config, seen: set[str]) -> Looker:
    """Looks at what the tab shows."""
    assert pytestconfig.cache is not None
    watch.expected += MEANT
    return Looker(page, axe_source(Path(pytestconfig.cache.mkdir("axe-core"))), seen)


def emptied(folder: Path) -> Path:
    """The folder, with nothing in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def sign_in(page: Page, username: str) -> Page:
    """Sign in through the form."""
    page.goto("/login/")
    page.get_by_label("User name").fill(username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/t/**")
    return page

"""Uploads that are interrupted, in a real browser: they go on by themselves, and lose and repeat nothing."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings as django_settings
from django.test import Client
from playwright.sync_api import Browser, Page, Request, expect

from hmi_site.launcher.ports import choose_port
from tenants.models import Corpus, Upload, UploadCheck
from tenants.services.checks import check_run
from tests.e2e.browser import patient
from tests.e2e.conftest import DESKTOP
from tests.e2e.world import World
from tests.integration.serving_faults.servers import Web

MEBIBYTE = 1024**2
PIECE = 8 * MEBIBYTE
NEW_CORPUS = "/t/acme/data/corpora/new/"
LINE = b"the patient felt dizzy in the morning, number %09d\n"


@pytest.fixture
def web(world: World, service_env: dict[str, str], tmp_path: Path) -> Iterator[Web]:
    """The web server as the launcher starts it, which a test may kill."""
    port = choose_port("127.0.0.1", 18_700)
    with contextlib.ExitStack() as ending:
        ending.enter_context(port.claim)
        env = {**service_env, "HMI_UPLOAD_ROOT": str(django_settings.HMI_UPLOAD_ROOT)}
        web = Web(port.address, port.number, env, tmp_path / "web.log")
        web.start()
        ending.callback(web.stop)
        yield web


@pytest.fixture
def tab(browser: Browser, web: Web, world: World) -> Iterator[Page]:
    """A tab at that server, signed in. While the server is dead the console may say so."""
    client = Client()
    client.force_login(world.owner)
    name = f"hmi_session_{urlsplit(web.url).port}"
    value = client.cookies[django_settings.SESSION_COOKIE_NAME].value
    context = patient(browser.new_context(base_url=web.url, viewport=DESKTOP))
    context.add_cookies([{"name": name, "value": value, "url": web.url}])
    yield context.new_page()
    context.close()


@pytest.fixture
def large_file(tmp_path: Path) -> Path:
    """A corpus of a few pieces."""
    path = tmp_path / "leaflets-of-june.txt"
    with path.open("wb") as file:
        file.writelines(LINE % number for number in range(5 * PIECE // 52))
    return path


def offsets_of(page: Page) -> list[int]:
    """Where each piece that is answered began; grows as the page sends."""
    offsets: list[int] = []

    def note(request: Request) -> None:
        if request.method == "PATCH":
            offsets.append(int(request.headers["upload-offset"]))

    page.on("requestfinished", note)
    return offsets


def choose(page: Page, file: Path) -> None:
    """Choose the file; returns when its first piece is there."""
    page.goto(NEW_CORPUS)
    page.get_by_label("Name", exact=True).fill("Leaflets of June")
    with page.expect_response(lambda response: response.request.method == "PATCH"):
        page.get_by_label("Text file").set_input_files(file)


def complete(page: Page, file: Path) -> None:
    """Wait for the end, and see that what is there is what was chosen."""
    expect(page.get_by_text("Uploaded and verified")).to_be_visible(timeout=60_000)
    upload = Upload.unscoped.get()
    assert (upload.is_complete, upload.size_bytes) == (True, file.stat().st_size)


def test_an_upload_goes_on_when_the_browser_is_online_again(tab: Page, large_file: Path) -> None:
    offsets = offsets_of(tab)
    choose(tab, large_file)
    tab.context.set_offline(True)
    expect(tab.get_by_text("Waiting for the connection")).to_be_visible()
    expect(tab.get_by_role("button", name="Check")).to_be_disabled()
    tab.context.set_offline(False)
    complete(tab, large_file)
    assert sorted(set(offsets)) == offsets


def test_an_upload_survives_the_death_of_the_web_server(tab: Page, web: Web, large_file: Path) -> None:
    choose(tab, large_file)
    web.kill()
    expect(tab.get_by_text("Waiting for the connection")).to_be_visible()
    web.start()
    complete(tab, large_file)


def test_a_file_that_is_chosen_again_after_a_reload_goes_on_where_it_was(tab: Page, large_file: Path) -> None:
    choose(tab, large_file)
    tab.reload()
    began = Upload.unscoped.get().pk
    offsets = offsets_of(tab)
    choose(tab, large_file)
    complete(tab, large_file)
    assert offsets[0] >= PIECE
    assert Upload.unscoped.get().pk == began


def test_a_file_that_a_worker_checks_is_followed_on_the_page(tab: Page, large_file: Path) -> None:
    choose(tab, large_file)
    tab.get_by_role("button", name="Check").click()
    expect(tab.get_by_text("Waiting to be checked")).to_be_visible()
    check_run(check_id=UploadCheck.unscoped.get().pk)
    expect(tab.get_by_text("First texts")).to_be_visible()
    tab.get_by_role("button", name="Store this corpus").click()
    expect(tab.get_by_text("Waiting to be checked")).to_be_visible()
    check_run(check_id=UploadCheck.unscoped.get(stores=True).pk)
    expect(tab.get_by_role("heading", level=1)).to_have_text("Leaflets of June")
    expect(tab.get_by_role("status").filter(has_text="is stored")).to_be_visible()
    assert Corpus.unscoped.filter(name="Leaflets of June").exists()
    assert not Upload.unscoped.exists()

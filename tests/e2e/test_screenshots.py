"""Pictures of every page, in light and dark, on a desktop and on a phone, to be looked at by people."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, ViewportSize
from pytest_django.live_server_helper import LiveServer

from tests.e2e.gallery import furnish, pages_of
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import PASSWORD, World
from tests.processes import InferenceWorker

SIZES: dict[str, ViewportSize] = {
    "desktop": {"width": 1280, "height": 900},
    "phone": {"width": 360, "height": 740},
}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def folder() -> Path:
    """Where the pictures go."""
    wanted = os.environ.get("HMI_SCREENSHOTS")
    return Path(wanted) if wanted else Path(settings.BASE_DIR) / "var" / "screenshots"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_screenshots_of_every_page_fit_their_width(
    browser: Browser,
    live_server: LiveServer,
    world: World,
    files: TinyFiles,
    inference_worker: InferenceWorker,
    size: str,
    scheme: Literal["light", "dark"],
) -> None:
    furnish(world, files)
    too_wide: dict[str, int] = {}
    for name, page in _opened(browser, live_server, world, size, scheme):
        if (beyond := picture(page, f"{name}-{size}-{scheme}")) > 0:
            too_wide[name] = beyond
    assert too_wide == {}


def picture(page: Page, name: str) -> int:
    """Keep a picture of the page; by how much it is wider than the window."""
    target = folder() / f"{name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=target, full_page=True, animations="disabled")
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def _opened(
    browser: Browser, live_server: LiveServer, world: World, size: str, scheme: Literal["light", "dark"]
) -> Iterator[tuple[str, Page]]:
    """Each page of the gallery in turn, in one tab."""
    context = browser.new_context(base_url=live_server.url, viewport=SIZES[size], color_scheme=scheme)
    context.set_default_timeout(10_000)
    page = context.new_page()
    page.goto("/login/")
    yield "sign-in", page
    page.get_by_label("User name").fill(world.owner.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/t/**")
    for name, prepare in pages_of(world).items():
        prepare(page)
        yield name, page
    page.goto("/")
    page.context.clear_cookies()
    page.goto("/login/?next=/serving/")
    page.get_by_label("User name").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("The last batches in the pipeline").wait_for()
    yield "serving", page
    context.close()

"""The content policy is enforced by the browser. The gallery shows that no page does what it forbids: the
fixture of the page fails a test whose pages do."""

from playwright.sync_api import Browser
from pytest_django.live_server_helper import LiveServer

from tests.e2e.world import World


def test_a_script_or_style_that_somebody_brought_into_a_page_does_nothing(
    browser: Browser, live_server: LiveServer, world: World
) -> None:
    page = browser.new_page(base_url=live_server.url)
    page.goto("/login/")
    page.evaluate(
        """document.body.insertAdjacentHTML("beforeend",
           "<img src=x onerror='document.title = `run`'><p id=brought style='color: rgb(1, 2, 3)'>x</p>")"""
    )
    page.wait_for_load_state("networkidle")
    colour = page.locator("#brought").evaluate("element => getComputedStyle(element).color")
    title = page.title()
    page.close()
    assert title == "Sign in · HMI"
    assert colour != "rgb(1, 2, 3)"

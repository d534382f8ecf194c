"""No page does what its content policy forbids, in the browser that enforces it: the fixture of the page
fails a test whose pages do. Those of the administration are walked through in `test_gallery.py`."""

from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

from tests.e2e.conftest import sign_in
from tests.e2e.world import World
from tests.integration.routes.conf import address
from tests.integration.routes.places import in_the_tenant
from tests.integration.routes.table import DECLARED


def visit(page: Page, paths: list[str]) -> int:
    """Open what is a page among these addresses; how many were."""
    seen = 0
    for path in paths:
        answer = page.request.get(path)
        is_page = answer.headers.get("content-type", "").startswith("text/html")
        if answer.status == 200 and is_page and "content-disposition" not in answer.headers:
            page.goto(path)
            seen += 1
    page.wait_for_load_state("networkidle")
    return seen


def test_no_page_of_a_tenant_or_of_ones_own_account(page: Page, world: World) -> None:
    sign_in(page, world.owner.username)
    values = in_the_tenant(world)
    asked = [
        route for route, methods in DECLARED.items() if "GET" in methods and not route.startswith("api/v1")
    ]
    assert visit(page, [address(route, values) for route in asked if route != "logout/"]) > 35


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

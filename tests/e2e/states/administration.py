"""Every list and every form of the administration, and a page of each kind of thing."""

from collections.abc import Iterator

from playwright.sync_api import Page

from tests.e2e.conftest import Enter
from tests.e2e.world import World
from tests.integration.routes.conf import address, routes

OF_OTHERS = (".select2-container", ".help-tooltip", "a[href$='password/']")
"""What Django's own widgets and django-unfold's draw, and how."""


def pages(page: Page, enter: Enter, world: World) -> Iterator[str]:
    """Each in turn, as far as there is something at the address."""
    enter(world.admin)
    for path in [*_without_parameters(), *_of_rows(world)]:
        answer = page.request.get(path)
        if answer.status == 200 and answer.headers.get("content-type", "").startswith("text/html"):
            page.goto(path)
            yield path.strip("/").replace("/", "-")


def _without_parameters() -> list[str]:
    shown = [route for route in routes() if route.startswith("admin/") and route.endswith("/")]
    doors = ("login/", "logout/", "autocomplete/", "jsi18n/", "search/", "live/")
    return [address(route, {}) for route in shown if "<" not in route and not route.endswith(doors)]


def _of_rows(world: World) -> list[str]:
    of = {"tenants/tenant": world.tenant, "tenants/user": world.owner, "tenants/dataset": world.dataset}
    return [f"/admin/{kind}/{row.pk}/change/" for kind, row in of.items()]

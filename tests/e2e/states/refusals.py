"""The pages that say why something is not to be had."""

from collections.abc import Iterator

import pytest
from django.db import connections
from playwright.sync_api import Page

from frontend.views import data
from tests.e2e.conftest import Enter
from tests.e2e.navigation import follow
from tests.e2e.world import World


def pages(page: Page, enter: Enter, world: World) -> Iterator[str]:
    """Each in turn; the site is whole again at the end."""
    page.goto("/nothing/")
    yield "refused-not-found"
    page.goto("/?q=%00")
    yield "refused-bad-request"
    enter(world.viewer)
    page.goto("/t/acme/models/new/")
    yield "refused-forbidden"
    page.goto("/t/umbra/")
    yield "refused-not-yours"
    enter(world.owner)
    page.goto("/t/acme/keys/")
    page.context.clear_cookies()
    page.get_by_label("Name").fill("Help desk")
    follow(page.get_by_role("button", name="Create key"))
    yield "refused-open-too-long"
    enter(world.owner)
    for name, breaks in {"internal-error": _crash, "no-database": _no_database}.items():
        with pytest.MonkeyPatch.context() as patch:
            breaks(patch)
            page.goto("/t/acme/data/")
        yield f"refused-{name}"


def _crash(patch: pytest.MonkeyPatch) -> None:
    """A bug of ours."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    patch.setattr(data, "render_page", broken)


def _no_database(patch: pytest.MonkeyPatch) -> None:
    """New connections find no server."""
    patch.setitem(connections.settings["default"], "HOST", "/nonexistent")

"""A tenant with a thousand models, as many jobs and a long past."""

from collections.abc import Iterator

from playwright.sync_api import Page

from benchmarks.serving.over_http.crowd import crowd
from tests.e2e.conftest import Enter
from tests.e2e.world import World

ADDRESSES = {
    "home": "",
    "tree": "tree/",
    "tree-found": "tree/?q=crowd-009",
    "hplms": "models/?page=2",
    "data": "data/",
    "jobs": "jobs/",
    "try": "playground/",
    "usage": "usage/",
    "requests": "requests/",
    "audit": "audit/",
}


def pages(page: Page, enter: Enter, world: World) -> Iterator[str]:
    """Each in turn."""
    crowd(world.tenant, world.hplm, hplms=1_000, jobs=1_000, usage=2_000, data=120)
    enter(world.owner)
    for name, address in {**ADDRESSES, "domain": f"domains/{world.domain.domain_id}/?page=3"}.items():
        page.goto(f"/t/acme/{address}")
        yield f"many-{name}"

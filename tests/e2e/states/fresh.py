"""Where nothing is yet: somebody in no tenant, and a tenant in which nobody has done anything."""

from collections.abc import Iterator

from playwright.sync_api import Page

from tenants.accounts.models import User
from tests.e2e.conftest import Enter
from tests.e2e.world import World

ADDRESSES = {
    "home": "",
    "tree": "tree/",
    "hplms": "models/",
    "data": "data/",
    "jobs": "jobs/",
    "try": "playground/",
    "keys": "keys/",
    "settings": "settings/",
    "members": "members/",
    "usage": "usage/",
    "requests": "requests/",
    "audit": "audit/",
    "hplm-new": "models/new/",
    "domain-new": "domains/new/",
    "corpus-new": "data/corpora/new/",
    "dataset-new": "data/datasets/new/",
}


def pages(page: Page, enter: Enter, world: World) -> Iterator[str]:
    """Each in turn."""
    enter(User.objects.create_user("newcomer"))
    page.goto("/")
    yield "fresh-no-tenant"
    enter(world.stranger)
    for name, address in ADDRESSES.items():
        page.goto(f"/t/umbra/{address}")
        yield f"fresh-{name}"

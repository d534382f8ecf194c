"""Every page in the states that it can be in: pictured in light and dark, on a desktop and on a phone, and
looked at for what keeps people out.

`make screenshots` runs this to have the pictures.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page
from redis import Redis

from tests.e2e.axe import axe_source
from tests.e2e.conftest import Enter, Watch
from tests.e2e.gallery import furnish, pages_of
from tests.e2e.looking import Looker
from tests.e2e.states import accounts, administration, fresh, long, many, refusals
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World
from tests.integration.routes.table import DECLARED
from tests.processes import InferenceWorker

Walk = Callable[[Page, Enter, World], Iterator[str]]
WALKS: dict[str, Walk] = {
    "accounts": accounts.pages,
    "fresh": fresh.pages,
    "long": long.pages,
    "many": many.pages,
    "refusals": refusals.pages,
}
NO_PAGES = {
    "metrics",
    "api/schema/",
    "favicon.ico",
    "serving/<path:worker>/trace.json",
    "invitations/<str:token>/",  # leads on to invitation/
    "login/code/confirm/",  # codes by e-mail are not sent
    "second-factor/recovery-codes/download/",
    *(
        f"t/<slug:slug>/{part}"
        for part in (
            "jobs/running/",
            "tree/<slug:kind>/<int:pk>/",
            "tree/<slug:kind>/<int:pk>/card/",
            "data/corpora/<int:pk>/coverage/",
            "data/corpora/<int:pk>/tokenizer-fit/",
            "data/datasets/<int:pk>/coverage/",
            "data/datasets/<int:pk>/tokenizer-fit/",
            "data/checks/<uuid:pk>/bad-rows.csv",
            "versions/<int:pk>/export/",
            "jobs/<uuid:pk>/progress/",
            "jobs/<uuid:pk>/live/",
            "batches/<uuid:pk>/results.jsonl",
            "batches/<uuid:pk>/errors.jsonl",
            "playground/models/",
            "usage.csv",
            "audit.csv",
            "settings/export/",
            "settings/export/<uuid:pk>/",
        )
    ),
}
"""What else is looked at by GET: files, pieces of pages, and what leads on."""
OF_PROGRAMS = ("api/v1/", "v1/", "v2", "health/")
MEANT = ("status of 500", "status of 503", "net::ERR_FAILED")
"""What the console says on pages that show a fault, or an upload whose connection broke."""

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def seen() -> set[str]:
    """The routes of all pages that these tests looked at."""
    return set()


@pytest.fixture
def looker(page: Page, watch: Watch, pytestconfig: pytest.Config, seen: set[str]) -> Iterator[Looker]:
    """Looks at what the tab shows."""
    assert pytestconfig.cache is not None
    watch.expected += MEANT
    looker = Looker(page, axe_source(Path(pytestconfig.cache.mkdir("axe-core"))))
    yield looker
    seen |= looker.seen


def test_the_pages_of_a_tenant_at_work(
    looker: Looker, enter: Enter, world: World, files: TinyFiles, inference_worker: InferenceWorker
) -> None:
    furnish(world, files)
    enter(world.owner)
    for name, prepare in pages_of(world).items():
        prepare(looker.page)
        looker.look(name)
    enter(world.admin)
    looker.page.goto("/serving/")
    looker.page.get_by_text("Last batches").wait_for()
    looker.look("serving")
    looker.found_nothing()


@pytest.mark.parametrize("walk", WALKS)
def test_the_pages_in_other_states(looker: Looker, enter: Enter, world: World, walk: str) -> None:
    for name in WALKS[walk](looker.page, enter, world):
        looker.look(name)
    looker.found_nothing()


def test_the_pages_of_the_administration(
    looker: Looker, enter: Enter, world: World, files: TinyFiles, redis_client: Redis
) -> None:
    looker.ours, looker.without = False, administration.OF_OTHERS
    names = []
    for name in administration.pages(looker.page, enter, world, files, redis_client):
        looker.look(name)
        names.append(name)
        looker.without = (*administration.OF_OTHERS, administration.FRAME)
    assert len(names) > 40
    looker.found_nothing()


def test_no_page_was_left_out(request: pytest.FixtureRequest, seen: set[str]) -> None:
    """The last of this file, of what the others saw."""
    others = [item for item in request.session.items if item.path == request.path]
    if len(others) < len(WALKS) + 3:
        pytest.skip("Only some of the pages were asked for.")
    looked_at = {
        route for route, methods in DECLARED.items() if "GET" in methods and not route.startswith(OF_PROGRAMS)
    }
    assert looked_at - NO_PAGES - seen == set(), "Have a walk of the gallery lead there."
    assert NO_PAGES - looked_at | NO_PAGES & seen == set(), "These are gone, or are pages."

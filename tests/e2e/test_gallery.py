"""Every page in the states that it can be in, looked at for what keeps people out, and for what its content
policy forbids (`Watch`). Pages of the administration are in test_gallery_admin.py.

`make screenshots` runs this to have pictures in light and dark, on a desktop and on a phone.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import Enter
from tests.e2e.gallery import furnish, pages_of
from tests.e2e.generative import DecoderFiles, furnish_generative, generative_pages
from tests.e2e.looking import Looker
from tests.e2e.states import accounts, fresh, long, many, quick, refusals
from tests.e2e.tiny_files import TinyFiles
from tests.e2e.world import World
from tests.integration.routes.table import DECLARED
from tests.processes import InferenceWorker, wait_until

Walk = Callable[[Page, Enter, World], Iterator[str]]
WALKS: dict[str, Walk] = {
    "accounts": accounts.pages,
    "fresh": fresh.pages,
    "long": long.pages,
    "many": many.pages,
    "quick": quick.pages,
    "refusals": refusals.pages,
}
NO_PAGES = {
    "metrics",
    "api/schema/",
    "api/docs/",  # Swagger UI: see test_gallery_admin.py
    "favicon.ico",
    "serving/",  # leads to the administration
    "invitations/<str:token>/",  # leads on to invitation/
    "login/code/confirm/",  # codes by e-mail are not sent
    "second-factor/recovery-codes/download/",
    "help/images/<str:name>",
    *(
        f"t/<slug:slug>/{part}"
        for part in (
            "jobs/running/",
            "tree/<slug:kind>/<int:pk>/",
            "tree/<slug:kind>/<int:pk>/card/",
            "data/corpora/<int:pk>/tokenizer-fit/",
            "data/datasets/<int:pk>/tokenizer-fit/",
            "data/datasets/<int:pk>/download/",
            "data/checks/<uuid:pk>/bad-rows.csv",
            "versions/<int:pk>/export/",
            "jobs/<uuid:pk>/progress/",
            "jobs/<uuid:pk>/live/",
            "models/<slug:name>/progress/",
            "batches/<uuid:pk>/results.jsonl",
            "batches/<uuid:pk>/errors.jsonl",
            "playground/models/",
            "api/",  # leads on to keys/
            "search/",  # a part of every page
            "usage.csv",
            "requests.csv",
            "audit.csv",
            "settings/export/",
            "settings/export/<uuid:pk>/",
        )
    ),
}
"""What else is looked at by GET: files, pieces of pages, and what leads on."""
OF_PROGRAMS = ("api/v1/", "v1/", "v2", "health/")
pytestmark = pytest.mark.timeout(1500)


def test_the_pages_of_a_tenant_at_work(
    looker: Looker, enter: Enter, world: World, files: TinyFiles, inference_worker: InferenceWorker
) -> None:
    furnish(world, files)
    enter(world.owner)
    for name, prepare in pages_of(world).items():
        prepare(looker.page)
        looker.look(name)
    looker.found_nothing()


def test_the_pages_of_generative_models(
    looker: Looker, enter: Enter, world: World, tmp_path: Path, inference_worker: InferenceWorker
) -> None:
    furnish_generative(world, DecoderFiles(tmp_path))
    wait_until(lambda: "smol" in inference_worker.told().roots, inference_worker)
    enter(world.owner)
    for name, prepare in generative_pages(world).items():
        prepare(looker.page)
        looker.look(name)
    looker.found_nothing()


@pytest.mark.parametrize("walk", WALKS)
def test_the_pages_in_other_states(looker: Looker, enter: Enter, world: World, walk: str) -> None:
    for name in WALKS[walk](looker.page, enter, world):
        looker.look(name)
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

"""What pages cost when there is much to show: as many queries as with little, and a page at a time."""

import re
from collections.abc import Iterable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.serving.over_http.crowd import crowd
from tenants.accounts.models import Tenant
from tenants.base import ttl_cache
from tenants.base.ttl_cache import TtlCache
from tests.e2e.world import World
from tests.integration.routes import conf
from tests.integration.routes.places import in_the_tenant
from tests.integration.routes.table import API_OF_A_TENANT, PAGES_OF_A_TENANT
from tests.integration.versiontree.answered import answers_keep, label_judge
from versiontree.jobs.models import Job
from versiontree.tree.models import Version
from versiontree.tree.selectors.browsing import hplms_search

pytestmark = pytest.mark.slow

API = "api/v1/tenants/<slug:tenant>/"
LISTS = {
    "": 22,
    "tree/": 8,
    "tree/?q=crowd": 10,
    "tree/domain/{domain}/": 10,
    "tree/domain/{domain}/?start=25": 10,
    "tree/root/{root}/": 10,
    "tree/model/{hplm}/card/": 8,
    "models/": 10,
    "models/?q=crowd&page=2": 10,
    "models/triage/": 22,
    "domains/{domain}/": 21,
    "models/triage/versions/1/": 24,
    "models/triage/versions/1/answers/": 16,
    "data/": 12,
    "data/?q=crowd&sort=largest": 12,
    "data/datasets/{dataset}/": 14,
    "jobs/?q=crowd&kind=evaluate": 10,
    "jobs/": 10,
    "jobs/?state=failed&page=2": 10,
    "jobs/{job}/": 18,
    "jobs/{job}/progress/": 16,
    "jobs/{job}/log/": 8,
}
"""Each page and the most queries that it may cost, those of the session and of membership among them."""


MOST = 40
"""Queries of any other page or list of the API."""
OUT = {"jobs/<uuid:pk>/live/"}
"""A stream, of which there is nothing here."""


def addresses(world: World) -> dict[str, int]:
    """The lists with ids of what is there, and whatever else can be looked at, each with its bound."""
    values = in_the_tenant(world)
    looked_at = [
        f"{prefix}{route}"
        for prefix, routes in (("t/<slug:slug>/", PAGES_OF_A_TENANT), (API, API_OF_A_TENANT))
        for route, methods in routes.items()
        if "GET" in methods and methods["GET"].owner == 200 and route not in OUT
    ]
    every = {
        conf.address(route, values).removesuffix("/" if "api/" in route else ""): MOST for route in looked_at
    }
    return every | bounded(world)


def bounded(world: World) -> dict[str, int]:
    """Those of `LISTS`."""
    ids = {
        "domain": world.domain.domain_id,
        "root": world.root.root_id,
        "hplm": world.hplm.hplm_id,
        "dataset": world.dataset.pk,
        "job": Job.unscoped.filter(version=world.hplm).values_list("pk", flat=True)[0],
    }
    return {f"/t/acme/{where.format(**ids)}": most for where, most in LISTS.items()}


def costs(client: Client, pages: Iterable[str]) -> dict[str, int]:
    """How many queries each page that is there takes, once it was looked at before."""
    found = {}
    for page in pages:
        if client.get(page).status_code != 200:
            continue
        with CaptureQueriesContext(connection) as seen:
            assert client.get(page).status_code == 200, page
        found[page] = len(seen)
    return found


def test_pages_cost_no_more_queries_with_hundreds_of_models_and_jobs_and_much_usage(
    owner: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many with a crowd as with one that is only too large to be drawn whole."""
    # An entry that expires between two looks at a page would cost it a query more.
    monkeypatch.setattr(ttl_cache, "_process_cache", TtlCache(clock=lambda: 0.0))
    answers_keep(world.hplm, label_judge(lambda n: "refund" if n % 2 else ""))
    pages = addresses(world)
    crowd(world.tenant, world.hplm, hplms=100, jobs=60, usage=100, data=30)
    before = costs(owner, pages)
    assert bounded(world).keys() - before.keys() == set(), "These are not there."
    assert {page: cost for page, cost in before.items() if cost > pages[page]} == {}
    crowd(world.tenant, world.hplm, hplms=300, jobs=300, usage=300, data=60, name="throng")
    after = costs(owner, pages)
    assert {page: (before[page], cost) for page, cost in after.items() if cost != before[page]} == {}


def names_in(page: str) -> list[str]:
    """The models of the crowd that a page names, in order, each once."""
    return list(dict.fromkeys(re.findall(r">(crowd-\d+)<", page)))


def test_a_branch_is_shown_page_by_page_until_all_of_it_was_there(owner: Client, world: World) -> None:
    crowd(world.tenant, world.hplm, hplms=60)
    address = f"/t/acme/tree/domain/{world.domain.domain_id}/"
    found: list[str] = []
    more: re.Match[str] | None = None
    while not found or more:
        page = owner.get(address + (f"?start={more[1]}" if more else "")).content.decode()
        found += names_in(page)
        more = re.search(r"start=(\d+)", page)
    assert found == [f"crowd-{n:05}" for n in range(1, 61)]


def test_a_large_tree_is_drawn_closed_and_a_small_one_open(owner: Client, world: World) -> None:
    assert "triage" in owner.get("/t/acme/tree/").content.decode()
    crowd(world.tenant, world.hplm, hplms=60)
    page = owner.get("/t/acme/tree/").content.decode()
    assert "medicine" in page
    assert "triage" not in page
    assert names_in(page) == []


def test_a_search_draws_what_it_found_with_all_that_leads_to_it(owner: Client, world: World) -> None:
    crowd(world.tenant, world.hplm, hplms=60)
    page = owner.get("/t/acme/tree/?q=crowd-0004").content.decode()
    assert names_in(page) == [f"crowd-{n:05}" for n in range(40, 50)]
    assert re.findall(r">(minilm|medicine)<", page) == ["minilm", "medicine"]
    assert "No matches" in owner.get("/t/acme/tree/?q=absent").content.decode()


def test_another_tenants_hplms_are_neither_drawn_nor_counted_nor_found(client: Client, world: World) -> None:
    client.force_login(world.stranger)
    for address in ("tree/", "tree/?q=triage", f"tree/domain/{world.domain.domain_id}/", "models/"):
        page = client.get(f"/t/umbra/{address}").content.decode()
        assert ">triage<" not in page, address
    assert "No matches" in client.get("/t/umbra/tree/?q=triage").content.decode()
    assert not hplms_search(Tenant.objects.get(slug="umbra")).exists()
    own = Version.unscoped.get(pk=world.hplm.pk).hplm_id
    assert client.get(f"/t/umbra/tree/model/{own}/card/").status_code == 404


def test_a_form_offers_what_is_new_and_finds_what_is_old(owner: Client, world: World) -> None:
    crowd(world.tenant, world.hplm, hplms=0, data=50)
    for address, field, old in (
        ("domains/new/", "corpus", world.corpus),
        ("models/triage/update/", "dataset", world.dataset),
    ):

        def page_of(query: str, address: str = address) -> str:
            return owner.get(f"/t/acme/{address}?{query}").content.decode()

        option = f"{old.name} ("
        assert option not in page_of("")
        assert "Showing the first 50." in page_of("")
        assert option in page_of(f"find_{field}={old.name.upper()}")
        assert f"crowd {field}" not in page_of(f"find_{field}={old.name}")
        assert f'<option value="{old.pk}" selected>{option}' in page_of(f"{field}={old.pk}")
        assert "There is no" not in page_of(f"find_{field}=absent")
    assert owner.post("/t/acme/models/triage/update/", {"dataset": world.dataset.pk}).status_code == 302


def test_the_pages_of_lists_follow_each_other(owner: Client, world: World) -> None:
    crowd(world.tenant, world.hplm, hplms=80, jobs=80)
    found: list[str] = []
    for number in (1, 2, 3, 4):
        found += names_in(
            owner.get(f"/t/acme/models/?page={number}&q=crowd").content.decode().replace("<strong>", "")
        )
    assert found == [f"crowd-{n:05}" for n in range(1, 81)]
    for listed in ("models/?sort=newest&page=2", "jobs/?sort=oldest&page=2"):
        page = owner.get(f"/t/acme/{listed}").content.decode()
        assert "26 to 50 of" in page
    assert "25 of" in owner.get("/t/acme/jobs/?page=nonsense").content.decode()

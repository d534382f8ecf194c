"""The page of a domain: what it is good for in figures of the tenant's own tasks."""

from django.test import Client

from tests.e2e.measures import evaluation
from tests.e2e.world import World, nothing_of_use, versions_finish
from versiontree.tree.services.hplms import hplm_create


def page_of(client: Client, world: World, after: str = "") -> str:
    answer = client.get(f"/t/acme/domains/{world.domain.domain_id}/")
    assert answer.status_code == 200
    return answer.content.decode().partition(after)[2] if after else answer.content.decode()


def test_a_domain_says_what_it_gains_where_a_model_of_the_same_dataset_stands_on_the_root(
    owner: Client, world: World
) -> None:
    assert "not measured yet" in page_of(owner, world)
    plain = hplm_create(
        tenant=world.tenant, name="plain", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    versions_finish(plain, {"evaluate": evaluation(right=24)}, files=nothing_of_use)
    page = page_of(owner, world, "Compared with models on the base model")
    assert "Tickets" in page
    assert "50.0%" in page
    assert "points" in page


def test_what_its_authors_measure_is_folded(owner: Client, world: World) -> None:
    before, _, details = page_of(owner, world).partition("<h2>Details</h2>")
    assert "Lookup tables" in details
    for word in ("Perplexity", "Unexplained", "Coverage"):
        assert word not in before


def test_a_domain_leads_to_a_model_on_it(owner: Client, world: World) -> None:
    assert f'href="/t/acme/models/new/?parent={world.domain.pk}">New model on it</a>' in page_of(owner, world)

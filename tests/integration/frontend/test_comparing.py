"""Versions side by side: settings and metrics of two to four, of one model or of several."""

import re

import pytest
from django.test import Client

from frontend.presenters.comparison import Comparison, Line
from tests.e2e.measures import evaluation
from tests.e2e.world import World, nothing_of_use, versions_finish
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import hplm_create, hplm_update


@pytest.fixture
def second(world: World) -> Version:
    """A further version of triage, which is not trained yet."""
    assert world.hplm.hplm is not None
    return hplm_update(hplm=world.hplm.hplm, dataset=world.dataset, settings={"epochs": 9}, actor=world.owner)


def lines_of(comparison: Comparison) -> dict[str, Line]:
    return {line.name: line for section in comparison.sections for line in section.lines}


def test_settings_that_differ_are_marked_and_equal_lines_are_muted(
    owner: Client, world: World, second: Version
) -> None:
    third = hplm_create(
        tenant=world.tenant, name="other", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    query = f"version=triage:1&version=triage:2&version=other:{third.number}"
    answer = owner.get(f"/t/acme/compare/?{query}")
    lines = lines_of(answer.context["comparison"])
    assert [cell.figure for cell in lines["Epochs"].cells][1] == "9"
    assert [cell.differs for cell in lines["Epochs"].cells] == [False, True, True]
    assert lines["Dataset"].same
    page = answer.content.decode()
    assert re.search(r"<strong>9</strong><span class=\"visually-hidden\"> differs</span>", page)
    assert re.search(r'<tr class="same"><th scope="row"><span [^>]*>Dataset<', page)
    assert "triage v2</a>" in page


def test_metrics_of_two_versions_stand_above_the_rows_that_changed(
    owner: Client, world: World, second: Version
) -> None:
    versions_finish(second, {"evaluate": evaluation(right=34)}, files=nothing_of_use)
    answer = owner.get("/t/acme/compare/?model=triage", follow=True)
    assert answer.redirect_chain[-1][0] == "/t/acme/models/triage/versions/2/compare/1/"
    accuracy = lines_of(answer.context["comparison"])["Accuracy"]
    assert not accuracy.same
    assert "Settings and metrics" in answer.content.decode()


def test_chosen_models_are_compared_by_their_default_versions(owner: Client, world: World) -> None:
    hplm_create(
        tenant=world.tenant, name="other", parent=world.root, dataset=world.dataset, actor=world.owner
    )
    chosen = {"chosen": ["triage", "other"]}
    answer = owner.post("/t/acme/selected/models/compare/", chosen, follow=True)
    assert answer.redirect_chain[-1][0] == "/t/acme/compare/?version=triage%3A1&version=other%3A1"
    assert "Comparison of 2 versions" in answer.content.decode()


@pytest.mark.parametrize("query", ["", "version=triage:1", "model=triage"])
def test_one_version_is_not_compared_with_nothing(owner: Client, query: str) -> None:
    assert "Choose 2 to 4 of them" in owner.get(f"/t/acme/compare/?{query}", follow=True).content.decode()


@pytest.mark.parametrize("reference", ["absent:1", "triage:9", "triage", "globex/triage:1"])
def test_a_version_that_there_is_not_is_not_found(owner: Client, reference: str) -> None:
    assert owner.get(f"/t/acme/compare/?version=triage:1&version={reference}").status_code == 404

"""Pages offer to put models on a newer version of their domain, and say what a version was rebased from."""

import pytest
from django.test import Client

from tests.e2e.world import World, nothing_of_use, versions_finish
from versiontree.jobs.models import Job
from versiontree.tree.models import Version
from versiontree.tree.services.domains import domain_update
from versiontree.tree.services.rebases import hplm_rebase

TRIAGE = "/t/acme/models/triage/"
NEWER = "medicine has a newer version"
HELD = {"trained": False, "metric": "accuracy", "rows": 100, "old": 0.912, "new": 0.921, "p_value": 0.7}


@pytest.fixture
def newer(world: World) -> Version:
    """A second version of the domain below which the model is."""
    text = Version.unscoped.get(pk=world.domain.pk).corpus
    assert world.domain.domain is not None
    assert text is not None
    made = domain_update(domain=world.domain.domain, corpus=text, actor=world.admin)
    versions_finish(made, files=nothing_of_use)
    return made


def read(client: Client, where: str) -> str:
    return client.get(where).content.decode()


def test_the_page_of_a_model_offers_a_rebase_to_who_may_write(
    world: World, client: Client, newer: Version
) -> None:
    client.force_login(world.viewer)
    shown = read(client, TRIAGE)
    assert NEWER in shown
    assert "v1 stands on medicine:1." in shown
    assert 'action="/t/acme/models/triage/rebase/"' not in shown
    assert client.post(f"{TRIAGE}rebase/").status_code == 403
    client.force_login(world.stranger)
    assert client.post(f"{TRIAGE}rebase/").status_code == 404
    client.force_login(world.developer)
    assert 'action="/t/acme/models/triage/rebase/"' in read(client, TRIAGE)
    answer = client.post(f"{TRIAGE}rebase/", follow=True)
    assert str(Job.unscoped.get(version__parent=newer, kind="fine_tune").pk) in answer.redirect_chain[-1][0]
    assert NEWER not in read(client, TRIAGE)
    again = client.post(f"{TRIAGE}rebase/", follow=True).content.decode()
    assert "is being built. Rebase the model when it is ready." in again


def test_the_page_of_a_domain_rebases_all_models_on_it(world: World, owner: Client, newer: Version) -> None:
    page = f"/t/acme/domains/{newer.domain_id}/"
    assert "triage v1 on medicine:1" in read(owner, page)
    answer = owner.post(f"{page}rebase/", follow=True).content.decode()
    assert "Queued: triage." in answer
    assert "Rebase models" not in answer
    assert Version.unscoped.filter(parent=newer, number=2).exists()


def test_the_page_of_a_domain_says_why_models_were_not_rebased(
    world: World, owner: Client, newer: Version
) -> None:
    page = f"/t/acme/domains/{newer.domain_id}/"
    Version.unscoped.filter(pk=world.hplm.pk).update(dataset=None)
    answer = owner.post(f"{page}rebase/", follow=True).content.decode()
    assert "1 model not rebased: Version 1 of triage was imported without its dataset" in answer


def test_a_rebased_version_says_from_what_and_the_list_of_models_on_what_it_stands(
    world: World, owner: Client, newer: Version
) -> None:
    assert world.hplm.hplm is not None
    version = hplm_rebase(hplm=world.hplm.hplm, actor=world.owner)
    assert "Rebased from version 1 onto medicine:2." in read(owner, f"{TRIAGE}versions/2/")
    versions_finish(version, {"fine_tune": {"rebase": HELD}}, files=nothing_of_use)
    shown = read(owner, f"{TRIAGE}versions/2/")
    assert "is not worse on it (accuracy on dev: 91.2% before, 92.1% on medicine:2), so it" in shown
    assert "medicine v2" in read(owner, "/t/acme/models/")

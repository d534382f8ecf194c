"""The search over a tenant's models, data, jobs and pages."""

import re

from django.test import Client

from tests.e2e.world import World

HIT = re.compile(r'<a href="([^"]+)"><span>([^<]+)</span>')


def found(client: Client, words: str) -> dict[str, str]:
    """The addresses of what a search finds, by name."""
    page = client.get("/t/acme/search/", {"q": words}).content.decode()
    return {name: address for address, name in HIT.findall(page)}


def test_models_data_and_jobs_are_found_by_a_part_of_their_names(owner: Client, world: World) -> None:
    assert found(owner, "tria")["triage"] == "/t/acme/models/triage/"
    assert found(owner, "TRIAGE")["triage v1"].startswith("/t/acme/jobs/")
    assert found(owner, "ticke")["Tickets"] == f"/t/acme/data/datasets/{world.dataset.pk}/"
    assert found(owner, "no such thing") == {}
    for address in found(owner, "t").values():
        assert owner.get(address).status_code == 200


def test_without_words_it_offers_the_pages_that_the_member_may_open(owner: Client, world: World) -> None:
    assert found(owner, "")["Audit log"] == "/t/acme/audit/"
    owner.force_login(world.viewer)
    assert "Audit log" not in found(owner, "")
    assert found(owner, "play") == {"Playground": "/t/acme/playground/"}


def test_actions_a_theme_and_help_are_found(owner: Client, world: World) -> None:
    assert found(owner, "upload")["Upload a dataset"] == "/t/acme/data/datasets/new/"
    assert found(owner, "roll back")["Roll back a model"] == "/t/acme/models/"
    assert found(owner, "new key")["Create an API key"] == "/t/acme/keys/"
    assert found(owner, "canary")["canary"] == "/help/glossary/#canary"
    assert found(owner, "quick versions")["Quick versions"].startswith("/help/")
    assert 'data-chooses-theme="dark"' in owner.get("/t/acme/search/?q=dark").content.decode()
    owner.force_login(world.viewer)
    assert "Upload a dataset" not in found(owner, "upload")


def test_a_tenant_finds_nothing_of_another(client: Client, world: World) -> None:
    client.force_login(world.stranger)
    assert client.get("/t/acme/search/?q=triage").status_code == 404
    assert "triage" not in client.get("/t/umbra/search/?q=triage").content.decode()

"""Who is let in where, beyond what the walk over all routes asks (tests/integration/routes)."""

import re

from django.test import Client
from django.urls import reverse

from tests.e2e.world import World
from tests.integration.versiontree.tree_factory import jobs_in_order


def pages_of(world: World) -> list[str]:
    """Addresses of things of the tenant."""
    job = jobs_in_order(world.hplm)[0].pk
    ids: dict[str, list[object]] = {
        "corpus": [world.corpus.pk],
        "dataset": [world.dataset.pk],
        "model": [world.hplm.name],
        "model_version": [world.hplm.name, 1],
        "job": [job],
        "job_progress": [job],
    }
    return [reverse(f"frontend:{name}", args=["acme", *more]) for name, more in ids.items()]


def test_who_signs_in_first_comes_back_to_the_page(client: Client, world: World) -> None:
    assert client.get(reverse("frontend:jobs", args=["acme"]))["Location"] == "/login/?next=/t/acme/jobs/"


def test_a_viewer_is_shown_no_buttons_that_would_refuse_him(client: Client, world: World) -> None:
    client.force_login(world.viewer)
    lists = {
        name: reverse(f"frontend:{name}", args=["acme"])
        for name in ("home", "models", "data", "jobs", "settings")
    }
    pages = {page: client.get(page).content.decode() for page in [*lists.values(), *pages_of(world)]}
    for page, html in pages.items():
        if page != lists["models"]:  # where viewers choose what to compare
            assert re.findall(r'<form[^>]*method="post"', main_of(html)) == [], page
    shown = "".join(pages.values())
    for button in (
        "Delete",
        ">Update",
        "New model",
        "New domain",
        "Upload a",
        "Upload data",
        "Train a",
    ):
        assert f">{button}" not in shown, button


def main_of(html: str) -> str:
    """The content of a page, without its navigation; all of a fragment."""
    found = re.search(r"<main.*</main>", html, re.DOTALL)
    return found[0] if found else html


def test_a_domain_of_the_platform_is_not_a_tenants_to_update(owner: Client, world: World) -> None:
    assert (
        owner.get(reverse("frontend:domain_update", args=["acme", world.domain.domain_id])).status_code == 404
    )


def test_the_start_leads_to_the_tenant_or_to_the_administration(client: Client, world: World) -> None:
    client.force_login(world.viewer)
    assert client.get("/")["Location"] == "/t/acme/"
    client.force_login(world.admin)
    assert client.get("/")["Location"] == "/admin/"


def test_person_without_a_tenant_has_a_profile(client: Client, world: World) -> None:
    client.force_login(world.admin)
    assert "No tenant yet" in client.get("/profile/").content.decode()


def test_the_icon_is_there_for_pages_that_name_none(client: Client) -> None:
    answer = client.get("/favicon.ico", follow=True)
    assert answer.redirect_chain == [("/static/frontend/icon.svg", 302)]
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/svg+xml")


def test_a_fragment_takes_its_page_to_the_sign_in_page_when_the_session_has_ended(
    client: Client, world: World
) -> None:
    answer = client.get(pages_of(world)[-1], headers={"HX-Request": "true"})
    assert answer["HX-Redirect"] == "/login/"

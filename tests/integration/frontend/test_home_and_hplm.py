"""The home page of a tenant, new and old, and the page of a model with a history."""

from datetime import timedelta

from django.db.models import F
from django.test import Client

from tenants.accounts.services.api_keys import api_key_create
from tenants.usage.models import UsageDay
from tenants.usage.services.usage import usage_record, usage_sums_rebuild
from tests.e2e.world import World
from versiontree.tree.models import Hplm
from versiontree.tree.services.hplms import hplm_create, hplm_update

FIRST_STEPS = "First steps"


def page_of(client: Client, address: str = "") -> str:
    return client.get(f"/t/acme/{address}").content.decode()


def test_a_new_tenant_is_told_what_to_do_first(client: Client, world: World) -> None:
    client.force_login(world.stranger)
    page = client.get("/t/umbra/").content.decode()
    assert FIRST_STEPS in page
    assert page.count("To do:") == 5


def test_first_steps_are_ticked_off_and_go_away_once_all_are_done(owner: Client, world: World) -> None:
    page = page_of(owner)
    assert (page.count("Done:"), page.count("To do:")) == (4, 1)
    assert "Create an API key" in page
    api_key_create(tenant=world.tenant, name="Help desk", scopes=["infer"], created_by=world.owner)
    assert FIRST_STEPS not in page_of(owner)
    UsageDay.unscoped.update(day=F("day") - timedelta(days=40))
    usage_sums_rebuild(tenant=world.tenant)
    assert FIRST_STEPS not in page_of(owner), "another month has begun"


def test_an_hplm_whose_name_was_not_typed_is_not_deleted(owner: Client, world: World) -> None:
    page = owner.post("/t/acme/models/triage/delete/", {"name": "Triage"}, follow=True).content.decode()
    assert "was not deleted" in page
    assert "triage" in page_of(owner, "models/")


def test_what_an_hplm_is_for_is_said_on_its_page_and_stands_in_the_model_card(
    owner: Client, client: Client, world: World
) -> None:
    assert "No description." in page_of(owner, "models/triage/")
    told = {"description": "Sorts <tickets>.\n\nNot for diagnoses.", "license": "mit"}
    assert owner.post("/t/acme/models/triage/edit/", told).status_code == 302
    page = page_of(owner, "models/triage/")
    assert "<p>Sorts &lt;tickets&gt;.</p>" in page
    assert "License: mit" in page
    card = page_of(owner, "models/triage/versions/1/card/")
    assert "<p>Not for diagnoses.</p>" in card
    assert "<h2>Licenses</h2>" in card
    assert '<details class="more"><summary>Lineage, with checksums</summary>' in card
    assert "&quot;acme/triage:1&quot;" in card, "a call that can be copied"
    assert "<tickets>" not in card
    assert owner.get("/t/acme/models/triage/versions/9/card/").status_code == 404
    refused = owner.post("/t/acme/models/triage/edit/", {"description": "x" * 5001})
    assert list(refused.context["form"].errors) == ["description"]
    client.force_login(world.viewer)
    assert "edit/" not in page_of(client, "models/triage/")


def test_the_status_of_a_row_is_what_the_list_is_chosen_by(owner: Client, world: World) -> None:
    new = hplm_create(
        tenant=world.tenant, name="new", parent=world.root, dataset=world.dataset, actor=world.owner
    ).hplm
    assert new is not None
    usage_record(tenant=world.tenant, model_name="new", inputs=1, tokens=9)
    UsageDay.unscoped.update(requests=10, failed=4)

    def failing() -> dict[str, str]:
        rows = owner.get("/t/acme/models/?status=failing").context["models"]
        return {row.name: row.status.label for row in rows}

    def status(name: str) -> str:
        rows = owner.get("/t/acme/models/").context["models"]
        return next(str(row.status.label) for row in rows if row.name == name)

    assert failing() == {"triage": "40% of requests fail"}, "the new one does not answer yet"
    assert status("new") == "Training"
    UsageDay.unscoped.filter(model_name="triage").update(day=F("day") - timedelta(days=2))
    assert status("triage") == "Ready", "another of that name was asked before it was made"
    assert failing() == {}
    Hplm.unscoped.filter(name="triage").update(created_at=F("created_at") - timedelta(days=3))
    assert failing() == {"triage": "40% of requests fail"}


def test_the_list_of_hplms_is_chosen_from_and_sorted(owner: Client, world: World) -> None:
    for name, parent in (("alpha", world.root), ("zeta", world.domain)):
        hplm_create(tenant=world.tenant, name=name, parent=parent, dataset=world.dataset, actor=world.owner)

    def listed(query: str) -> list[str]:
        return [row.name for row in owner.get(f"/t/acme/models/?{query}").context["models"]]

    assert listed("") == ["alpha", "triage", "zeta"]
    assert listed("sort=newest") == ["zeta", "alpha", "triage"]
    assert listed("task=tagging") == []
    assert listed("task=classification&q=a") == ["alpha", "triage", "zeta"]
    assert listed("status=building") == ["alpha", "zeta"]
    assert listed("status=ready") == ["triage"]
    assert listed("status=failing") == []
    UsageDay.unscoped.filter(model_name="triage").update(requests=10, failed=4)
    assert listed("status=failing") == ["triage"]
    assert listed(f"under=domain-{world.domain.domain_id}&sort=newest") == ["zeta", "triage"]
    assert listed(f"under=root-{world.root.root_id}") == ["alpha"]
    assert listed("under=root-0&task=none&sort=none") == ["alpha", "triage", "zeta"], "no choice of the form"
    hplm_update(hplm=Hplm.unscoped.get(name="triage"), dataset=world.dataset, actor=world.owner)
    assert listed("status=building") == ["alpha", "triage", "zeta"], "the newest version says"
    assert listed("status=ready") == []

"""What is ticked in a list is deleted at once, and data and models are renamed and duplicated."""

import io

from django.test import Client

from tenants.datasets.models import Corpus, Dataset
from tenants.datasets.services.datasets import dataset_upload
from tests.e2e.world import World
from tests.unit.tenants.files import jsonl
from versiontree.tree.models import Hplm
from versiontree.tree.services.hplms import hplm_create


def spare(world: World, name: str) -> Dataset:
    """A dataset that nothing was trained on."""
    rows = jsonl({"text": f"text {n}", "label": "ab"[n % 2]} for n in range(60))
    files = {"train": (f"{name}.jsonl", io.BytesIO(rows.encode()))}
    return dataset_upload(tenant=world.tenant, name=name, task="classification", files=files)


def test_chosen_data_is_deleted_and_what_is_in_use_stays(owner: Client, world: World) -> None:
    first, second = spare(world, "first"), spare(world, "second")
    chosen = [f"dataset:{row.pk}" for row in (first, world.dataset)] + [f"corpus:{world.corpus.pk}"]
    page = owner.post("/t/acme/selected/data/delete/", {"chosen": chosen}, follow=True).content.decode()
    assert "2 files deleted." in page
    assert "The dataset &#x27;Tickets&#x27; is in use and cannot be deleted" in page
    left = set(Dataset.objects.for_tenant(world.tenant).values_list("pk", flat=True))
    assert left == {second.pk, world.dataset.pk}
    assert not Corpus.objects.for_tenant(world.tenant).exists()


def test_chosen_models_are_deleted_and_those_that_are_training_stay(owner: Client, world: World) -> None:
    hplm_create(tenant=world.tenant, name="busy", parent=world.root, dataset=world.dataset, actor=world.owner)
    chosen = {"chosen": ["triage", "busy", "absent"]}
    page = owner.post("/t/acme/selected/models/delete/", chosen, follow=True).content.decode()
    assert "1 model deleted." in page
    assert "Jobs of busy are active" in page
    names = Hplm.objects.for_tenant(world.tenant).filter(deleted_at=None).values_list("name", flat=True)
    assert list(names) == ["busy"]


def test_a_dataset_gets_another_name_unless_it_is_taken(owner: Client, world: World) -> None:
    made = spare(world, "old")
    address = f"/t/acme/data/datasets/{made.pk}/rename/"
    assert "Dataset renamed." in owner.post(address, {"name": " New name "}, follow=True).content.decode()
    assert Dataset.objects.for_tenant(world.tenant).get(pk=made.pk).name == "New name"
    taken = owner.post(address, {"name": "Tickets"}, follow=True).content.decode()
    assert "There is already a dataset with the name" in taken
    assert Dataset.objects.for_tenant(world.tenant).get(pk=made.pk).name == "New name"


def test_a_renamed_model_is_found_under_its_new_name(owner: Client, world: World) -> None:
    assert (
        "Requests that use the present name will fail" in owner.get("/t/acme/models/triage/").content.decode()
    )
    answer = owner.post("/t/acme/models/triage/rename/", {"name": "inbox"}, follow=True)
    assert answer.redirect_chain[-1][0] == "/t/acme/models/inbox/"
    assert "Requests to triage fail from now on: use inbox." in answer.content.decode()
    assert owner.get("/t/acme/models/triage/").status_code == 404
    wrong = owner.post("/t/acme/models/inbox/rename/", {"name": "In box"}, follow=True)
    assert "A name is 1 to 63 lower-case letters" in wrong.content.decode()


def test_a_model_is_duplicated_with_its_data_parent_and_settings(owner: Client, world: World) -> None:
    made = hplm_create(
        tenant=world.tenant,
        name="short",
        parent=world.root,
        dataset=world.dataset,
        settings={"epochs": 2},
        actor=world.owner,
    )
    page = owner.get("/t/acme/models/short/")
    form = owner.get(page.context["duplicate"])
    chosen = form.context["chosen"]
    assert (chosen["name"], chosen["dataset"], chosen["parent"]) == ("short-2", world.dataset, made.parent)
    assert {name.lower(): str(value) for name, value in form.context["settings"].items()} == {"epochs": "2"}

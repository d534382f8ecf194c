"""Labels to check: where they are found, how they are corrected, and who may."""

import re
from typing import Any

from django.test import Client

from tenants.datasets.models import Dataset, Split
from tenants.datasets.selectors.previews import dataset_first_rows
from tenants.datasets.services.datasets import dataset_upload
from tenants.datasets.storage import stored_path
from tests.e2e.world import World
from tests.integration.tenants.content import stream
from tests.unit.tenants.files import jsonl
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import hplm_create


def suspected(world: World, dataset: Dataset, *suspects: dict[str, Any], name: str = "") -> Version:
    """A quick version that was trained on the dataset and doubts these labels."""
    name = name or f"{dataset.name.lower()}-model"
    trained = hplm_create(
        tenant=world.tenant, name=name, parent=world.domain, dataset=dataset, actor=world.owner, quick=True
    )
    quick = Version.unscoped.get(hplm=trained.hplm, number=1)
    Version.unscoped.filter(pk=quick.pk).update(metrics={"quick": {"suspects": list(suspects)}})
    return quick


def doubted_tickets(world: World) -> tuple[Version, list[str]]:
    """Rows 0 and 2 of the tickets are doubted. Returns the version that does, and the first labels."""
    labels = [row["label"] for row in dataset_first_rows(world.dataset, Split.TRAIN)]
    doubts = [{"row": row, "label": labels[row], "suggested": "refund", "confidence": 0.97} for row in (0, 2)]
    return suspected(world, world.dataset, *doubts), labels


def address(dataset: Dataset, page: str = "labels/") -> str:
    return f"/t/acme/data/datasets/{dataset.pk}/{page}"


def test_a_dataset_says_how_many_labels_to_check_and_shows_them(owner: Client, world: World) -> None:
    doubted_tickets(world)
    assert "2 labels to check" in owner.get(address(world.dataset, "")).content.decode()
    page = owner.get(address(world.dataset)).content.decode()
    assert ">97.0% sure it is<" in page
    assert dataset_first_rows(world.dataset, Split.TRAIN)[2]["text"] in page
    assert re.search(r'name="name" value="Tickets-2"', page)
    assert page.count('value="fix"') == 2
    assert re.findall(r'<input[^>]*value="(\w+)"[^>]*checked', page) == ["keep", "keep"]


def test_all_suggestions_are_chosen_by_one_click(owner: Client, world: World) -> None:
    doubted_tickets(world)
    page = owner.get(address(world.dataset), {"all": "fix"}).content.decode()
    chosen = re.findall(r'<input[^>]*value="(\w+)"[^>]*checked', page)
    assert chosen == ["fix", "fix"]


def test_the_choices_make_a_corrected_dataset_from_which_the_model_is_updated(
    owner: Client, world: World
) -> None:
    doubted_tickets(world)
    rows = [split.rows for split in world.dataset.splits.all()]
    choices = {"name": "Tickets-2", "row-0": "fix", "row-2": "leave_out"}
    saved = owner.post(address(world.dataset, "correct/"), choices, follow=True).content.decode()
    assert "Dataset Tickets-2 saved." in saved
    assert "A corrected copy of Tickets: 1 label changed, 1 row left out." in saved
    corrected = Dataset.objects.for_tenant(world.tenant).get(name="Tickets-2")
    assert f'href="/t/acme/models/tickets-model/update/?dataset={corrected.pk}"' in saved
    first, second, _ = dataset_first_rows(corrected, Split.TRAIN)
    before = dataset_first_rows(world.dataset, Split.TRAIN)
    assert (first["label"], second) == ("refund", before[1])
    assert sum(split.rows for split in corrected.splits.all()) == sum(rows) - 1


def test_refused_choices_stay_chosen(owner: Client, world: World) -> None:
    doubted_tickets(world)
    taken = owner.post(
        address(world.dataset, "correct/"), {"name": "Tickets", "row-2": "fix"}
    ).content.decode()
    assert "There is already a dataset with the name" in taken
    assert re.findall(r'<input[^>]*name="(row-\d)"[^>]*value="fix"[^>]*checked', taken) == ["row-2"]
    assert f'href="{address(world.dataset)}?all=fix"' in taken
    nothing = owner.post(address(world.dataset, "correct/"), {"name": "Tickets-2"}).content.decode()
    assert "Give 1 to 1,000 corrections." in nothing


def test_choices_about_an_older_quick_version_are_looked_at_again(owner: Client, world: World) -> None:
    older, labels = doubted_tickets(world)
    choices = {"name": "Tickets-2", "row-0": "fix", "version": str(older.pk)}
    other = {"row": 0, "label": labels[0], "suggested": "delivery", "confidence": 0.97}
    newer = suspected(world, world.dataset, other, name="another")
    page = owner.post(address(world.dataset, "correct/"), choices).content.decode()
    assert "A newer quick version has checked the labels." in page
    assert not Dataset.objects.for_tenant(world.tenant).filter(name="Tickets-2").exists()
    assert f'name="version" value="{newer.pk}"' in page
    choices["version"] = str(newer.pk)
    assert owner.post(address(world.dataset, "correct/"), choices).status_code == 302


def test_a_tag_is_shown_in_its_sentence_and_corrected(owner: Client, world: World) -> None:
    sentence = {"tokens": ["Ada", "took", "aspirin", "twice"], "tags": ["O", "O", "B-DRUG", "O"]}
    files = {
        split: (
            f"{split}.jsonl",
            stream(jsonl([sentence | {"tokens": [split, *sentence["tokens"][1:]]}] * rows)),
        )
        for split, rows in (("train", 8), ("dev", 2), ("test", 2))
    }
    dataset = dataset_upload(tenant=world.tenant, name="Drugs", task="tagging", files=files)
    suspect = {"row": 1, "token": 2, "label": "B-DRUG", "suggested": "O", "confidence": 0.9}
    suspected(world, dataset, suspect)
    page = owner.get(address(dataset)).content.decode()
    assert 'train took <mark class="tag">aspirin</mark> twice' in page
    owner.post(address(dataset, "correct/"), {"name": "Drugs-2", "row-1-2": "fix"})
    corrected = Dataset.objects.for_tenant(world.tenant).get(name="Drugs-2")
    assert [row["tags"][2] for row in dataset_first_rows(corrected, Split.TRAIN)] == ["B-DRUG", "O", "B-DRUG"]


def test_two_hundred_hostile_labels_are_shown_as_text_and_fixed_at_once(owner: Client, world: World) -> None:
    evil = "<script>alert(1)</script>"
    rows = [{"text": f"{evil} {n}", "label": (evil, "calm")[n % 2]} for n in range(240)]
    parts = {"train": rows[:200], "dev": rows[200:220], "test": rows[220:]}
    files = {split: (f"{split}.jsonl", stream(jsonl(part))) for split, part in parts.items()}
    dataset = dataset_upload(tenant=world.tenant, name="<b>Evil", task="classification", files=files)
    other = {evil: "calm", "calm": evil}
    doubts = [
        {"row": n, "label": row["label"], "suggested": other[row["label"]], "confidence": 0.97}
        for n, row in enumerate(parts["train"])
    ]
    suspected(world, dataset, *doubts, name="evil")
    page = owner.get(address(dataset)).content.decode()
    assert (page.count('value="fix"'), "<script>alert" in page, "<b>Evil" in page) == (200, False, False)
    choices = {"name": "<i>Fixed", **{f"row-{n}": "fix" for n in range(200)}}
    saved = owner.post(address(dataset, "correct/"), choices, follow=True).content.decode()
    assert "A corrected copy of &lt;b&gt;Evil: 200 labels changed." in saved
    assert ("<i>Fixed" in saved, "<script>alert" in saved) == (False, False)
    again = owner.post(address(dataset, "correct/"), choices).content.decode()
    assert "There is already a dataset with the name" in again
    assert Dataset.objects.for_tenant(world.tenant).filter(name__contains="Fixed").count() == 1


def test_rows_without_labels_have_none_to_check(owner: Client, world: World) -> None:
    rows = [{"text": f"row {n}", "value": n} for n in range(30)]
    files = {"train": ("train.jsonl", stream(jsonl(rows)))}
    values = dataset_upload(tenant=world.tenant, name="Values", task="regression", files=files)
    suspected(world, values)
    assert "No labels to check" in owner.get(address(values)).content.decode()
    assert "Labels to check" not in owner.get(address(values, "rows/")).content.decode()
    assert "Labels to check" in owner.get(address(world.dataset, "rows/")).content.decode()


def test_the_page_says_that_the_file_of_the_rows_is_gone(owner: Client, world: World) -> None:
    doubted_tickets(world)
    stored_path(world.dataset.splits.get(split="train").sha256).unlink()
    assert "The file is missing on this server." in owner.get(address(world.dataset)).content.decode()


def test_without_a_quick_version_the_page_says_how_labels_are_checked(owner: Client, world: World) -> None:
    assert "Nothing checked yet" in owner.get(address(world.dataset)).content.decode()
    suspected(world, world.dataset)
    assert "No label looks wrong" in owner.get(address(world.dataset)).content.decode()
    assert "to check</h2>" not in owner.get(address(world.dataset, "")).content.decode()


def test_viewers_see_the_labels_and_strangers_nothing(client: Client, world: World) -> None:
    doubted_tickets(world)
    client.force_login(world.viewer)
    shown = client.get(address(world.dataset)).content.decode()
    assert ("97.0% sure" in shown, "Save as a new dataset" in shown) == (True, False)
    assert client.post(address(world.dataset, "correct/"), {"row-0": "fix"}).status_code == 403
    client.force_login(world.stranger)
    assert client.get(address(world.dataset)).status_code == 404
    assert client.post(address(world.dataset, "correct/"), {"row-0": "fix"}).status_code == 404


def test_the_api_lists_the_suspects_of_a_dataset(owner: Client, client: Client, world: World) -> None:
    version, labels = doubted_tickets(world)
    listed = owner.get(f"/api/v1/tenants/acme/datasets/{world.dataset.pk}/suspects").json()
    assert listed["version"] == version.pk
    assert [(one["row"], one["token"], one["label"], one["suggested"]) for one in listed["suspects"]] == [
        (row, None, labels[row], "refund") for row in (0, 2)
    ]
    assert listed["suspects"][0]["example"] == dataset_first_rows(world.dataset, Split.TRAIN)[0]

"""The pages of data: samples, unused uploads, and the rows of a dataset."""

import io
import re

from django.test import Client

from tenants.datasets.models import Dataset
from tenants.datasets.services.datasets import dataset_upload
from tenants.datasets.services.uploads import upload_receive
from tests.e2e.world import World
from tests.unit.tenants.files import jsonl


def test_the_sample_dataset_is_there_after_one_click_and_there_once(owner: Client, world: World) -> None:
    made = owner.post("/t/acme/data/sample/", {"sample": "support"})
    shown = owner.get(made["Location"]).content.decode()
    assert "Create model" in shown, "with everything chosen"
    [dataset] = Dataset.unscoped.filter(name__icontains="sample")
    shown = owner.get(f"/t/acme/data/datasets/{dataset.pk}/").content.decode()
    assert "88 rows" in shown
    assert "My parcel has not arrived after ten days." in shown
    assert owner.post("/t/acme/data/sample/", {"sample": "support"})["Location"] == made["Location"]
    refused = owner.post("/t/acme/data/sample/", {"sample": "another"}, follow=True).content.decode()
    assert "There is no such sample." in refused


def test_all_unused_uploads_are_discarded_at_once(owner: Client, world: World) -> None:
    for name in ("one.csv", "two.csv"):
        upload_receive(
            tenant=world.tenant, filename=name, size=3, stream=io.BytesIO(b"a,b"), actor=world.owner
        )
    assert "Discard all" in owner.get("/t/acme/data/").content.decode()
    shown = owner.post("/t/acme/data/uploads/discard/", follow=True).content.decode()
    assert "2 uploads discarded." in shown
    assert "one.csv" not in shown


def test_rows_are_browsed_and_searched(owner: Client, world: World) -> None:
    good = [{"text": f"number {n} went well", "label": "good"} for n in range(20)]
    bad = [{"text": f"number {n} went badly", "label": "bad"} for n in range(10)]
    held_out = {
        split: [{"text": f"{split} {n}", "label": "good"} for n in range(2)] for split in ("dev", "test")
    }
    rows = {"train": good + bad, **held_out}
    files = {split: (f"{split}.jsonl", io.BytesIO(jsonl(some).encode())) for split, some in rows.items()}
    dataset = dataset_upload(tenant=world.tenant, name="Moods", task="classification", files=files)
    address = f"/t/acme/data/datasets/{dataset.pk}/rows/"

    def shown(**query: str) -> tuple[list[str], str]:
        page = owner.get(address, query).content.decode()
        further = re.search(r'rel="next" href="[^"]*after=([\d-]+)', page)
        return re.findall(r'<p dir="auto">([^<]+)</p>', page), further[1] if further else ""

    first, after = shown()
    rest, end = shown(after=after)
    assert (len(first), len(rest), end) == (25, 5, "")
    assert [*first, *rest] == [row["text"] for row in good + bad]
    assert shown(q="BADLY")[0] == [row["text"] for row in bad]
    assert shown(split="test")[0] == ["test 0", "test 1"]
    assert shown(after="3")[0] == first  # no row begins there
    assert shown(q="nothing like that") == ([], "")

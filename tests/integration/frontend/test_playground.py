"""The playground without an answer: rows to try a model with."""

import io
import re
from typing import Any

from django.test import Client

from tenants.datasets.selectors.previews import dataset_sample
from tenants.datasets.services.datasets import dataset_upload
from tests.e2e.task_rows import KINDS
from tests.e2e.world import World, nothing_of_use, versions_finish
from tests.unit.tenants.files import jsonl
from versiontree.tree.models import Version
from versiontree.tree.services.hplms import hplm_create

CHOOSE = "/t/acme/playground/update/"


def tagged(number: int) -> dict[str, Any]:
    """Words, the second of which is a span."""
    return {"tokens": ["take", f"drug{number}", "daily"], "tags": ["O", "B-DRUG", "O"]}


def fields(page: str) -> list[str]:
    """What stands in the texts to be filled in."""
    return [text.strip() for text in re.findall(r"<textarea[^>]*>([^<]*)</textarea>", page)]


EXAMPLES = [
    ("triage", [r"[a-z ]+, ticket \d+"], "delivery|refund|prescription|side effects"),
    ("topics", [r"leaflet \d+ on \d"], "dosage"),
    ("pain-score", [r"my head hurts a little, day \d+"], r"\d(\.\d)?"),
    ("same-meaning", [r"take \d+ tablets a day", r"the daily dose is \d+ tablets"], "same|other"),
    ("leaflet-questions", [r"How many tablets .*", r"Leaflet \d+: take .*"], r"\d+ tablets|no answer"),
    ("drugs", [r"take drug\d+ daily"], "DRUG"),
]
"""Of each model: its texts, and the expected answer."""


def test_example_row_fills_the_fields_of_each_kind_of_model(owner: Client, world: World) -> None:
    for task, name, row, _ in (*KINDS, ("tagging", "drugs", tagged, None)):
        train = {"train": (f"{name}.jsonl", io.BytesIO(jsonl(map(row, range(60))).encode()))}
        dataset = dataset_upload(tenant=world.tenant, name=name, task=task, files=train, actor=world.owner)
        made = hplm_create(
            tenant=world.tenant, name=name, parent=world.root, dataset=dataset, actor=world.owner
        )
        versions_finish(made, files=nothing_of_use)
    for name, filled, expected in EXAMPLES:
        offered = owner.get(f"/t/acme/playground/?model={name}@default").content.decode()
        assert re.search(rf"<small dir=\"auto\">({expected})", offered), name
        asked = {"model": f"{name}@default", "text": "mine", "second": "too"}
        found = fields(owner.post(CHOOSE, {**asked, "example": "1"}).content.decode())
        assert len(found) == len(filled), name
        for text, pattern in zip(found, filled, strict=True):
            assert re.fullmatch(pattern, text), text
        assert fields(owner.post(CHOOSE, {**asked, "example": "9"}).content.decode())[0] == "mine"


def test_the_rows_are_those_that_nothing_was_learned_from(owner: Client, world: World) -> None:
    page = owner.post(CHOOSE, {"model": "triage@default", "example": "1"}).content.decode()
    assert fields(page) == [dataset_sample(world.dataset)["test"][1]["text"]]


def test_nothing_is_proposed_where_the_dataset_is_not_there(
    owner: Client, client: Client, world: World
) -> None:
    assert 'name="example"' in owner.get("/t/acme/playground/").content.decode()
    Version.unscoped.filter(pk=world.hplm.pk).update(dataset=None)
    assert 'name="example"' not in owner.get("/t/acme/playground/").content.decode()
    client.force_login(world.stranger)
    stranger = client.post(
        "/t/umbra/playground/update/", {"model": "triage@default", "example": "1"}
    ).content.decode()
    assert "no such model" in stranger
    assert "ticket" not in stranger

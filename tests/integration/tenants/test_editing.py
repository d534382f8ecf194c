"""Edited datasets: rows changed, left out and added, stored as a new dataset."""

import json
from functools import partial

import pytest

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.edits import MAX_EDITS, RowChange
from tenants.datasets.services.editing import dataset_edit
from tests.integration.tenants.content import audit_of, dataset_files, put_dataset
from tests.integration.world import World
from tests.unit.tenants.files import refused

pytestmark = pytest.mark.usefixtures("in_acme_scope", "upload_root")
NEW = {"text": "a row of its own", "label": "good"}


def test_an_edited_dataset_has_the_changes_and_tells_them(world: World) -> None:
    dataset = put_dataset(world)
    before = {split: path.read_text().splitlines() for split, path in dataset_files(dataset).items()}
    changes = [
        RowChange("train", 2, {"text": "what was meant"}),
        RowChange("train", 4, None),
        RowChange("test", None, NEW),
        RowChange("train", 1, {"label": "neutral"}),
    ]
    edited = dataset_edit(dataset=dataset, changes=changes, actor=world.developer)
    assert edited.name == "mood-2"
    assert edited.labels == ["bad", "good", "neutral"]
    after = {split: path.read_text().splitlines() for split, path in dataset_files(edited).items()}
    train = [json.loads(line) for line in before["train"]]
    train[0]["label"], train[1]["text"] = "neutral", "what was meant"
    assert [json.loads(line) for line in after["train"]] == train[:3] + train[4:]
    assert after["dev"] == before["dev"]
    assert after["test"][:-1] == before["test"]
    assert json.loads(after["test"][-1]) == NEW
    told = edited.report["edited"]
    assert (told["changed"], told["removed"], told["added"]) == (2, 1, 1)
    assert told["dataset"] == {"id": dataset.pk, "name": "mood"}
    assert [(row["split"], row["row"]) for row in told["rows"]] == [
        ("train", 1),
        ("train", 2),
        ("train", 4),
        ("test", None),
    ]
    assert told["rows"][1]["after"]["text"] == "what was meant"
    event = audit_of(world.tenant).first()
    assert event is not None
    assert event.detail["edited"] == {name: told[name] for name in told if name != "rows"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "Give 1 to 1,000 changes."),
        ([RowChange("train", None, NEW)] * (MAX_EDITS + 1), "Give 1 to 1,000 changes."),
        ([RowChange("later", 1, None)], "There is no split 'later'. The splits are train, dev, test."),
        ([RowChange("train", 33, None)], "train has no row 33. Its 32 rows count from 1."),
        ([RowChange("train", 0, None)], "train has no row 0. Its 32 rows count from 1."),
        ([RowChange("train", 2, None), RowChange("train", 2, NEW)], "train, row 2 is changed twice."),
        ([RowChange("train", None, None)], "train: a new row needs fields."),
        ([RowChange("train", 2, {"txt": "x"})], "train, row 2: it has no field 'txt'. It has text, label."),
    ],
)
def test_changes_that_do_not_fit_are_refused(world: World, changes: list[RowChange], message: str) -> None:
    dataset = put_dataset(world)
    edit = partial(dataset_edit, dataset=dataset, changes=changes, actor=world.developer)
    assert refused(ErrorCode.INVALID_FIELD, edit).message == message


def test_edited_rows_are_checked_as_if_they_were_uploaded(world: World) -> None:
    changes = [RowChange("train", 3, {"text": ""})]
    edit = partial(dataset_edit, dataset=put_dataset(world), changes=changes, actor=None)
    assert "row 3" in refused(ErrorCode.EMPTY_TEXT, edit).message.lower()

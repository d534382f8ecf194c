"""Corrected datasets: other labels, rows left out, stored as a new dataset."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.corrections import Correction
from tenants.datasets.models import Dataset
from tenants.datasets.selectors.uploads import datasets_of
from tenants.datasets.services.corrections import dataset_correct
from tenants.usage.models import Quota
from tests.integration.tenants.content import DATASETS, audit_of, dataset_files, put_dataset, stored, stream
from tests.integration.world import World
from tests.unit.tenants.files import jsonl, refused

pytestmark = pytest.mark.usefixtures("in_acme_scope", "upload_root")

SENTENCES: list[dict[str, Any]] = [
    {"tokens": ["Ada", "Lovelace", "met", f"guest {n}"], "tags": ["B-PER", "I-PER", "O", "O"]}
    for n in range(12)
]


def train(dataset: Dataset) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dataset_files(dataset)["train"].read_text().splitlines()]


def tagged(world: World) -> Dataset:
    files = {
        split: (f"{split}.jsonl", stream(jsonl(rows)))
        for split, rows in (("train", SENTENCES[:8]), ("dev", SENTENCES[8:10]), ("test", SENTENCES[10:]))
    }
    return put_dataset(world, task="tagging", files=files)


def test_a_corrected_dataset_has_other_labels_fewer_rows_and_the_same_test_rows(world: World) -> None:
    dataset = put_dataset(world)
    before = train(dataset)
    other = {"good": "bad", "bad": "good"}[before[1]["label"]]
    corrections = [Correction(1, other), Correction(3, None)]
    corrected = dataset_correct(dataset=dataset, corrections=corrections, actor=world.developer)
    assert corrected.name == "mood-2"
    expected = [row for number, row in enumerate(before) if number != 3]
    expected[1] = before[1] | {"label": other}
    assert train(corrected) == expected
    assert train(dataset) == before
    kept, made = (dataset_files(one) for one in (dataset, corrected))
    assert (kept["dev"], kept["test"]) == (made["dev"], made["test"])
    of = {"id": dataset.pk, "name": "mood"}
    assert corrected.report["corrected"] == {"dataset": of, "relabeled": 1, "left_out": 1}
    event = audit_of(world.tenant).first()
    assert event is not None
    assert (event.verb, event.subject, event.actor) == ("dataset.upload", "mood-2", world.developer)
    assert event.detail["corrected"]["dataset"] == of


def test_a_span_that_lost_its_first_token_begins_with_the_next(world: World) -> None:
    dataset = tagged(world)
    corrections = [Correction(2, "O", token=0), Correction(2, "B-PER", token=3)]
    corrected = dataset_correct(dataset=dataset, corrections=corrections, actor=world.developer)
    assert [row["tags"] for row in train(corrected)[1:3]] == [
        ["B-PER", "I-PER", "O", "O"],
        ["O", "B-PER", "O", "B-PER"],
    ]


def test_several_labels_are_corrected_together(world: World) -> None:
    labels = [["billing"], ["billing", "urgent"], ["urgent"]]
    rows = [{"text": f"row {n}", "labels": labels[n % 3]} for n in range(30)]
    dataset = put_dataset(world, jsonl(rows), task="multilabel")
    corrections = [Correction(0, "billing, urgent"), Correction(1, "")]
    corrected = dataset_correct(dataset=dataset, corrections=corrections, actor=world.developer)
    assert [row["labels"] for row in train(corrected)[:2]] == [["billing", "urgent"], []]
    error = refused(
        ErrorCode.INVALID_FIELD,
        lambda: dataset_correct(dataset=dataset, corrections=[Correction(0, "billing, late")], actor=None),
    )
    assert error.message == "Row 0: the dataset has no label 'late'."


def test_each_corrected_copy_gets_the_next_free_name(world: World) -> None:
    dataset, leave_out = put_dataset(world), [Correction(0, None)]
    second = dataset_correct(dataset=dataset, corrections=leave_out, actor=None)
    third = dataset_correct(dataset=second, corrections=leave_out, actor=None)
    fourth = dataset_correct(dataset=dataset, corrections=[Correction(1, None)], actor=None)
    assert [second.name, third.name, fourth.name] == ["mood-2", "mood-3", "mood-4"]
    assert [len(train(one)) for one in (dataset, second, third)] == [32, 31, 30]


@pytest.mark.parametrize(
    ("corrections", "says"),
    [
        ([], "Give 1 to 1,000 corrections."),
        ([Correction(32, None)], "There is no row 32 in train. Its 32 rows are counted from 0."),
        ([Correction(0, "better")], "Row 0: the dataset has no label 'better'."),
        ([Correction(0, "good", token=1)], "Row 0: a correction names a token for tagging, and only then."),
        ([Correction(0, "good"), Correction(0, None)], "Row 0 has two corrections."),
        ([Correction(0, None), Correction(0, "good")], "Row 0 has two corrections."),
    ],
)
def test_corrections_that_do_not_fit_store_nothing(
    world: World, upload_root: Path, corrections: list[Correction], says: str
) -> None:
    dataset = put_dataset(world)
    before = stored(upload_root)
    error = refused(
        ErrorCode.INVALID_FIELD,
        lambda: dataset_correct(dataset=dataset, corrections=corrections, actor=world.developer),
    )
    assert (error.message, error.param) == (says, "corrections")
    assert stored(upload_root) == before
    assert datasets_of(world.tenant).count() == 1


def test_tags_and_tokens_that_do_not_exist_are_refused(world: World) -> None:
    dataset = tagged(world)
    for correction in (Correction(0, "PER", token=0), Correction(0, "O", token=4), Correction(0, "O")):
        correct = partial(dataset_correct, dataset=dataset, corrections=[correction], actor=None)
        refused(ErrorCode.INVALID_FIELD, correct)


def test_corrections_are_refused_without_storage_or_if_the_stored_rows_were_changed(world: World) -> None:
    dataset, leave_out = put_dataset(world), [Correction(0, None)]
    Quota.unscoped.filter(tenant=world.tenant).update(max_storage_bytes=1)
    refused(
        ErrorCode.QUOTA_EXCEEDED,
        lambda: dataset_correct(dataset=dataset, corrections=leave_out, actor=world.developer),
    )
    path = dataset_files(dataset)["train"]
    path.chmod(0o600)
    path.write_text(path.read_text().replace("good", "evil"))
    error = refused(
        ErrorCode.CORRUPT_ARTIFACT,
        lambda: dataset_correct(dataset=dataset, corrections=leave_out, actor=world.developer),
    )
    assert error.message.startswith("mood, train, is damaged on this server.")


def test_the_api_corrects_a_dataset_of_ones_own_tenant(world: World) -> None:
    dataset = put_dataset(world)
    address = f"{DATASETS}/{dataset.pk}/corrections"
    body = {"name": "mood, checked", "corrections": [{"row": 3, "label": None}]}
    manage, infer = (world.client(key=world.key(scope)[1]) for scope in ("manage", "infer"))
    made = manage.post(address, body, format="json")
    assert (made.status_code, made.data["name"]) == (201, "mood, checked")
    assert made.data["report"]["corrected"]["left_out"] == 1
    assert manage.post(address, body, format="json").data["error"]["code"] == "conflict"
    assert manage.post(address, {"corrections": []}, format="json").status_code == 422
    assert infer.post(address, body, format="json").status_code == 403
    assert world.client(world.viewer).post(address, body, format="json").status_code == 403
    assert world.client(world.stranger).post(address, body, format="json").status_code == 404

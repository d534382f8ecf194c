"""Uploads over HTTP that are refused, and what their refusal says."""

from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from tests.integration.tenants.asking import CORPORA, DATASETS, post
from tests.integration.tenants.content import nothing_is_left, rows, upload
from tests.integration.world import World

pytestmark = pytest.mark.usefixtures("in_acme_scope")

PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ONE_LABEL = "".join(f'{{"text": "text number {number}", "label": "good"}}\n' for number in range(40))
BAD = [
    (CORPORA, {}, 422, "missing_field", None),
    (CORPORA, {"name": "x"}, 422, "missing_field", "file"),
    (CORPORA, {"name": "x", "file": "a string"}, 422, "invalid_field", "file"),
    (CORPORA, {"name": "x", "file": ("a.txt", b"")}, 422, "empty_file", "file"),
    (CORPORA, {"name": "x", "file": ("a.txt", PNG)}, 422, "not_text", "file"),
    (
        DATASETS,
        {"name": "x", "task": "classification", "train": ("a.jsonl", rows(40)), "test": ("b.jsonl", PNG)},
        422,
        "not_text",
        "test",
    ),
    (
        DATASETS,
        {"name": "x", "task": "classification", "train": ("a.jsonl", ONE_LABEL)},
        422,
        "one_label",
        "train",
    ),
    (DATASETS, {"name": "x", "task": "classification"}, 422, "missing_field", "train"),
    (
        DATASETS,
        {"name": "x", "task": "guessing", "train": ("a.jsonl", rows(40))},
        422,
        "invalid_field",
        "task",
    ),
    (
        DATASETS,
        {"name": "x", "task": "tagging", "train": ("a.jsonl", rows(40))},
        422,
        "missing_column",
        "train",
    ),
    (
        DATASETS,
        {"name": "x", "task": "classification", "train": ("a.jsonl", rows(40)), "columns": "{"},
        422,
        "invalid_field",
        "columns",
    ),
    (
        DATASETS,
        {"name": "x", "task": "classification", "train": ("a.jsonl", rows(40)), "columns": "[1]"},
        422,
        "invalid_field",
        "columns",
    ),
    (
        DATASETS,
        {"name": "x", "task": "classification", "train": ("a.jsonl", rows(40)), "columns": '{"text": 5}'},
        422,
        "invalid_field",
        "columns",
    ),
]


@pytest.mark.parametrize(("address", "fields", "status", "code", "param"), BAD)
def test_bad_uploads_say_what_is_wrong_and_leave_nothing(
    world: World,
    upload_root: Path,
    address: str,
    fields: dict[str, Any],
    status: int,
    code: str,
    param: str | None,
) -> None:
    sent = {key: upload(*value) if isinstance(value, tuple) else value for key, value in fields.items()}
    answer = post(world.client(world.developer), address, **sent)
    assert answer.status_code == status, answer.content
    error = answer.json()["error"]
    assert error["code"] == code
    assert param is None or error["param"] == param
    assert nothing_is_left(upload_root)


def test_an_upload_that_is_no_form_is_refused(world: World) -> None:
    answer = world.client(world.developer).post(CORPORA, {"name": "x"}, format="json")
    assert answer.status_code == 415
    assert answer.json()["error"]["param"] == "Content-Type"


def test_leaking_splits_are_refused_until_they_are_allowed(world: World) -> None:
    client = world.client(world.developer)

    def files() -> dict[str, Any]:
        return {
            "task": "classification",
            "train": upload("a.jsonl", rows(40)),
            "dev": upload("b.jsonl", rows(9)),
        }

    refused = post(client, DATASETS, name="leaky", **files())
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "leaking_splits")
    assert refused.json()["error"]["details"]["leaks"][0]["first_rows"][0] == 1
    made = post(client, DATASETS, name="leaky", allow_leaks="true", **files())
    assert made.status_code == 201, made.content
    assert made.json()["leaks_allowed"] is True

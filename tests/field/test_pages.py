"""Pages as a new user meets them: uploads by the form, failed requests, and the words of counts."""

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from frontend.forms.data import COLUMN_LABELS
from frontend.presenters.requests import request_row
from frontend.status import STYLES
from inference.batches.models import BatchState
from tenants.base.errors import ErrorCode
from tenants.datasets.formats.rows import OPTIONAL_COLUMNS, REQUIRED_COLUMNS
from tenants.datasets.models import Dataset, Task
from tenants.usage.models import LoggedRequest, RequestStatus
from tests.e2e.world import World
from tests.integration.frontend.conftest import (  # noqa: F401 - fixtures
    built,
    default_scope,
    owner,
    world,
)
from versiontree.jobs.models import JobState
from versiontree.tree.models.version import VersionState

NEW, CHECK = "/t/acme/data/datasets/new/", "/t/acme/data/datasets/check/"
ROWS: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    Task.CLASSIFICATION: lambda n: {"text": f"text number {n}", "label": "ab"[n % 2]},
    Task.MULTILABEL: lambda n: {"text": f"text number {n}", "labels": ["a", "b"][: 1 + n % 2]},
    Task.REGRESSION: lambda n: {"text": f"text number {n}", "value": n / 2},
    Task.TAGGING: lambda n: {"tokens": ["take", f"pill{n}"], "tags": ["O", "B-DRUG"]},
    Task.QUESTION_ANSWERING: lambda n: {
        "question": f"what is number {n}",
        "context": f"the number is {n}",
        "answers": [{"text": str(n), "start": 14}],
    },
    Task.GENERATION: lambda n: {"prompt": f"say {n}", "completion": f"it is {n}"},
    Task.CHAT: lambda n: {
        "messages": [{"role": "user", "content": f"say {n}"}, {"role": "assistant", "content": f"it is {n}"}]
    },
}
"""A row of each task."""


def page_text(response: Any) -> str:
    """The text of a page as people read it."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def as_jsonl(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_table(rows: list[dict[str, Any]], delimiter: str = ",") -> str:
    """The rows as a table: labels, tokens and tags joined, other lists as JSON."""
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=delimiter)
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow([cell(name, value) for name, value in row.items()])
    return stream.getvalue()


def cell(name: str, value: Any) -> str:
    if name == "labels":
        return "|".join(value)
    if name in {"tokens", "tags"}:
        return " ".join(value)
    return json.dumps(value) if isinstance(value, list) else str(value)


def as_conll(rows: list[dict[str, Any]]) -> str:
    return "\n".join(
        "".join(f"{token} {tag}\n" for token, tag in zip(row["tokens"], row["tags"], strict=True))
        for row in rows
    )


FORMATS: Final[dict[str, Callable[[list[dict[str, Any]]], str]]] = {
    "jsonl": as_jsonl,
    "csv": as_table,
    "tsv": lambda rows: as_table(rows, "\t"),
    "conll": as_conll,
}
UPLOADS: Final = [
    (task, kind) for task in REQUIRED_COLUMNS for kind in FORMATS if kind != "conll" or task == Task.TAGGING
]


@pytest.mark.parametrize(("task", "kind"), UPLOADS)
def test_the_form_takes_a_file_of_every_task_and_format(
    owner: Client,  # noqa: F811
    world: World,  # noqa: F811
    task: str,
    kind: str,
) -> None:
    content = FORMATS[kind]([ROWS[task](n) for n in range(60)]).encode()

    def fields() -> dict[str, Any]:
        return {"name": "Mine", "task": task, "train": SimpleUploadedFile(f"rows.{kind}", content)}

    checked = owner.post(CHECK, fields())
    assert checked.status_code == 200
    assert "Invalid data" not in page_text(checked), page_text(checked)
    assert "Save dataset" in page_text(checked)
    stored = owner.post(NEW, fields(), follow=True)
    assert "Mine saved." in page_text(stored)
    assert Dataset.unscoped.get(name="Mine").task == task


def test_every_task_state_and_error_code_has_its_words() -> None:
    columns = {name for names in (*REQUIRED_COLUMNS.values(), *OPTIONAL_COLUMNS.values()) for name in names}
    assert columns <= COLUMN_LABELS.keys()
    assert set(Task.values) == REQUIRED_COLUMNS.keys() == ROWS.keys()
    states = [*JobState.values, *VersionState.values, *BatchState.values]
    assert set(states) <= STYLES.keys()
    assert {str(status) for status in RequestStatus} <= STYLES.keys()
    for code in ("", *ErrorCode):
        row = request_row(LoggedRequest(error_code=code, status=200, at=datetime.now(UTC)))
        assert bool(row.cause) == bool(code), code


MESSAGES = "Message,Category\n" + "".join(f"text number {n},{'ab'[n % 2]}\n" for n in range(60))
UNKNOWN = MESSAGES.replace("Category", "kind")


def test_columns_that_were_guessed_right_are_checked_with_the_guess(
    owner: Client,  # noqa: F811
    world: World,  # noqa: F811
) -> None:
    def checked(content: str) -> Any:
        file = SimpleUploadedFile("rows.csv", content.encode())
        return owner.post(CHECK, {"name": "Mine", "task": "classification", "train": file})

    page = checked(MESSAGES)
    text = page_text(page)
    assert "Invalid data" not in text
    assert "Save dataset" in text
    assert re.search(r"Text is Message ?, Label is Category .*Change", text), text
    assert {field.name: field.initial for field in page.context["columns"]} == {
        "column_text": "Message",
        "column_text_pair": "",
        "column_label": "Category",
    }
    refused = page_text(checked(UNKNOWN))
    assert "Choose the columns above" in refused
    assert "Label is" not in refused

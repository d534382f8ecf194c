"""Saying which column of a file is which, once a check has read it."""

import html
from io import BytesIO
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tenants.datasets.models import Dataset, Upload, UploadCheck
from tenants.datasets.services.checks import check_run
from tenants.datasets.services.uploads import upload_receive
from tests.e2e.world import World
from tests.unit.tenants.files import jsonl

NEW, CHECK = "/t/acme/data/datasets/new/", "/t/acme/data/datasets/check/"
PAIRS = [{"text": f"one {n}", "text_pair": f"two {n}", "side": "ab"[n % 2], "score": n} for n in range(30)]
CONLL = "".join(f"word{n} NN {'B-X' if n % 2 else 'O'}\n\n" for n in range(30))


def received(world: World, content: str, name: str = "rows.jsonl") -> Upload:
    """An upload of the owner's."""
    stream = BytesIO(content.encode())
    return upload_receive(
        tenant=world.tenant, filename=name, size=len(content.encode()), stream=stream, actor=world.owner
    )


def offered(page: Any) -> dict[str, tuple[str, list[str]]]:
    """Each choice by its label: what stands chosen, and all that is on offer, as people read them."""
    found = {}
    for field in page.context["columns"]:
        choices = dict(field.field.widget.choices)
        found[field.label] = (choices[field.initial], list(choices.values()))
    return found


def test_each_task_names_its_columns_and_what_was_read_stands_chosen(owner: Client, world: World) -> None:
    def asked(task: str, content: str, name: str = "rows.jsonl", **chosen: str) -> dict[str, Any]:
        upload = received(world, content, name)
        fields = {"name": "Rows", "task": task, "separator": "", "train_upload": upload.pk, **chosen}
        return offered(owner.post(CHECK, fields))

    pairs = jsonl(PAIRS)
    ways = ["text (one 0)", "text_pair (two 0)", "side (a)", "score (0)"]
    refused = asked("classification", pairs)
    assert {name: chosen for name, (chosen, _) in refused.items()} == {
        "First text": ways[0],
        "Second text": ways[1],
        "Label of the pair": "Choose…",
    }
    assert refused["Label of the pair"][1] == ["Choose…", *ways]
    assert refused["First text"][1] == ways, "what is read anyway stands there once"
    assert asked("classification", pairs, column_label="side")["Label of the pair"][0] == ways[2]
    assert asked("regression", pairs, column_value="score")["Value of the pair"][0] == ways[3]
    tagged = asked("tagging", CONLL, "rows.conll")
    assert tagged == {
        "Tokens": ("1 (word0)", ["1 (word0)", "2 (NN)", "3 (O)"]),
        "Tags": ("3 (O)", ["3 (O)", "1 (word0)", "2 (NN)"]),
    }


@pytest.mark.parametrize(
    ("rows", "task"),
    [
        ([{"message": f"one {n}", "category": "ab"[n % 2]} for n in range(30)], "classification"),
        ([{"message": f"one {n}", "kind": "ab"[n % 2]} for n in range(30)], "classification"),
        ([{"text": f"one {n}", "rating": n / 3} for n in range(30)], "regression"),
        ([{"instruction": f"say {n}", "output": f"it is {n}"} for n in range(30)], "generation"),
    ],
)
def test_the_task_is_guessed_from_the_columns_and_can_be_changed(
    owner: Client, world: World, rows: list[dict[str, Any]], task: str
) -> None:
    fields = {"name": "Rows", "separator": "", "train_upload": received(world, jsonl(rows)).pk}
    page = owner.post(CHECK, fields)
    assert (page.context["check"].state, page.context["check"].options["task"]) == ("passed", task)
    assert f"Read as <strong>{page.context['task']}</strong>" in page.content.decode()
    changed = owner.post(CHECK, {**fields, "task": "chat"})
    assert (changed.context["check"].state, changed.context["task"]) == ("refused", "Chat")
    columns = page.context["check"].options["columns"] or {}
    chosen = {f"column_{name}": column for name, column in columns.items()}
    owner.post(NEW, {**fields, **chosen})
    assert Dataset.unscoped.get(name="Rows").task == task


@pytest.mark.parametrize("other", ["kind", "about"])
def test_a_check_asks_only_for_the_column_that_nothing_suggests(
    owner: Client, world: World, other: str
) -> None:
    rows = [{"message": f"one {n}", other: f"value {n}"} for n in range(30)]
    fields = {"name": "Rows", "separator": "", "train_upload": received(world, jsonl(rows)).pk}
    asked = owner.post(CHECK, fields)
    page = html.unescape(asked.content.decode())
    assert "<h2>Choose the columns</h2>" in page
    assert "no column 'label'; found: 'message'" in page
    chosen = {name: choice for name, (choice, _) in offered(asked).items()}
    assert (chosen["Text"], chosen["Label"]) == ("message (one 0)", "Choose…")


def test_choosing_what_was_read_anyway_lets_what_was_kept_be_stored(
    owner: Client, world: World, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HMI_CHECK_INLINE_BYTES = 100
    fields = {
        "name": "Rows",
        "task": "tagging",
        "separator": "",
        "train_upload": received(world, CONLL, "a").pk,
    }
    owner.post(CHECK, fields)
    check_run(UploadCheck.unscoped.get().pk)
    monkeypatch.setattr(
        "tenants.datasets.services.checks.dataset_validate", lambda **_: pytest.fail("read again")
    )
    form = owner.post(NEW, {**fields, "column_tokens": "", "column_tags": ""}, follow=True)
    assert "Queued" in form.content.decode()
    check_run(UploadCheck.unscoped.get(store=True).pk)
    assert UploadCheck.unscoped.get(store=True).state == "stored"


def test_a_check_that_was_left_is_taken_up_with_its_files_and_choices(
    owner: Client, world: World, settings: Settings
) -> None:
    settings.HMI_CHECK_INLINE_BYTES = 100
    upload = received(world, jsonl(PAIRS))
    owner.post(
        NEW, {"name": "Rows", "task": "classification", "train_upload": upload.pk, "column_text": "side"}
    )
    check = UploadCheck.unscoped.get()
    check_run(check.pk)
    address = f"/t/acme/data/checks/{check.pk}/"
    assert f'href="{address}"' in owner.get("/t/acme/data/").content.decode().split("Unused uploads")[1]
    for page in (owner.get(address), owner.get(f"{address}?full=1", headers={"HX-Request": "true"})):
        assert f'href="{NEW}?check={check.pk}"' in page.content.decode()
        assert "Save dataset" not in page.content.decode()
    form = owner.get(NEW, {"check": str(check.pk)})
    assert f'name="train_upload" value="{upload.pk}"' in form.content.decode()
    assert 'value="Rows"' in form.content.decode()
    assert offered(form)["First text"][0] == "side (a)"
    for other in (str(upload.pk), "x"):
        assert owner.get(NEW, {"check": other}).status_code == (404 if other != "x" else 200)
    assert "columns" not in owner.get("/t/acme/data/corpora/new/", {"check": str(check.pk)}).context

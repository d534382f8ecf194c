"""Rows of fine-tuning jobs: the forms that are understood, and what is said of others."""

from pathlib import Path
from typing import Any

import pytest

from tenants.datasets.models import Dataset, File
from tenants.datasets.storage import stored_path
from tests.integration.inference.openai.conftest import Caller
from tests.integration.inference.openai.tuning import asked, begin, now, version_of
from tests.unit.tenants.files import jsonl, texts
from versiontree.tree.models import Version

CHAT = [
    {
        "messages": [
            {"role": "system", "content": "Say how it is."},
            {"role": "user", "content": [{"type": "text", "text": f"number {n}"}]},
            {"role": "assistant", "content": ("good", "bad")[n % 2]},
        ]
    }
    for n in range(40)
]


PROMPTS = [{"prompt": f"number {n} ->", "completion": (" good", " bad")[n % 2]} for n in range(40)]


TAGS = [{"tokens": ["in", f"city{n}"], "tags": ["O", "B-PLACE"]} for n in range(40)]


BODIES = [{"body": f"number {n}", "mood": ("good", "bad")[n % 2]} for n in range(40)]


COLUMNS = {"task": "classification", "columns": {"text": "body", "label": "mood"}}


@pytest.mark.parametrize(
    ("rows", "hmi", "task", "line"),
    [
        (CHAT, {}, "classification", '"text":"number'),
        (PROMPTS, {}, "classification", '->","label":"'),
        (TAGS, {}, "tagging", '"B-PLACE"'),
        (BODIES, COLUMNS, "classification", '"label":"bad"'),
    ],
)
def test_rows_of_each_form_become_a_dataset(
    client: Caller, root: Version, upload_root: Path, rows: Any, hmi: Any, task: str, line: str
) -> None:
    job = asked(client, jsonl(rows), hmi=hmi)
    begin(job)
    shown = now(client, job)
    assert shown["status"] == "queued", shown["error"]
    dataset = version_of(job).dataset
    assert dataset is not None
    assert (dataset.task, sum(split.rows for split in dataset.splits.all())) == (task, 40)
    splits = [upload_root / split.sha256[:2] / split.sha256 for split in dataset.splits.all()]
    canonical = "".join(path.read_text() for path in splits).replace(": ", ":").replace(", ", ",")
    assert line in canonical
    assert "Say how it is." not in canonical


def test_nothing_is_tuned_on_a_file_that_was_changed(
    client: Caller, root: Version, upload_root: Path
) -> None:
    job, datasets = asked(client, jsonl(CHAT)), Dataset.unscoped.count()
    file = stored_path(File.unscoped.get().sha256)
    lines = file.read_bytes().splitlines(keepends=True)
    file.chmod(0o644)
    file.write_bytes(b"".join(reversed(lines)))  # rows as good as the others
    begin(job)
    shown = now(client, job)
    assert (shown["status"], shown["error"]["code"]) == ("failed", "corrupt_artifact")
    assert "rows.jsonl" in shown["error"]["message"]
    assert Dataset.unscoped.count() == datasets


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        ("not json at all\n" * 20, "missing_column", "hmi.task"),
        (jsonl([*CHAT, {"messages": [{"role": "user", "content": "?"}]}]), "malformed_row", "row 41"),
        (jsonl(CHAT[:2]) + "\n" + jsonl([{"messages": "?"}]), "malformed_row", "row 3, line 4"),
        (jsonl([*PROMPTS, {"prompt": "?"}]), "missing_column", "row 41"),
        (jsonl(CHAT[::2]), "one_label", "good"),
        (jsonl(texts(3)), "too_few_rows", "3"),
    ],
)
def test_bad_rows_fail_the_job_with_their_place(
    client: Caller, root: Version, rows: str, code: str, said: str
) -> None:
    job = asked(client, rows)
    begin(job)
    shown = now(client, job)
    assert (shown["status"], shown["error"]["code"]) == ("failed", code)
    assert said in shown["error"]["message"]
    assert shown["error"]["param"] in ("training_file", "files")
    assert shown["finished_at"]
    assert Dataset.unscoped.filter(name__startswith="ft-").count() == 0
    assert client.asks(f"fine_tuning/jobs/{job['id']}/cancel").status_code == 409

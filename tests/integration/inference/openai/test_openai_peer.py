"""The stock `openai` client, in an environment of its own, with a running product."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tenants.accounts.services.api_keys import api_key_create
from tests.integration.hmi_client.conftest import Product, key_of
from tests.integration.jobs.generative_world import home_of, ready_writer
from tests.integration.jobs.world import SMALL_FINE_TUNE, mood_rows
from tests.peers import peer_python
from tests.processes import CeleryWorker
from tests.unit.tenants.files import jsonl
from tests.unit.tiny import tiny_hplm, tiny_root

HERE = Path(__file__).parent / "peers"
PAGE = Path(__file__).resolve().parents[4] / "docs/openai.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
LONGEST_S = 800


def run(folder: Path, key: str, *program: str, sent: str = "") -> str:
    """What a program says that has the client."""
    python = str(peer_python())
    env = {**os.environ, "HMI_API_KEY": key}
    done = subprocess.run(
        [python, *program],
        input=sent,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def examples(product: Product) -> str:
    """Those of the page, at this address and with little to learn."""
    short = f'"tickets", extra_body={{"hmi": {{"settings": {SMALL_FINE_TUNE}}}}}'
    script = "\n".join(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    for shown, here in [
        ("http://127.0.0.1:8000", product.url),
        ('"minilm"', '"tiny"'),
        ('"smollm2"', '"smol"'),
        ('suffix="tickets"', f"suffix={short}"),
        ("sleep(5)", "sleep(0.1)"),
    ]:
        assert shown in script
        script = script.replace(shown, here)
    return script


def test_it_sends_data_follows_a_fine_tuning_to_the_end_and_hears_of_errors_as_its_own(
    product: Product, tmp_path: Path
) -> None:
    rows = tmp_path / "tickets.jsonl"
    rows.write_text(jsonl(mood_rows()))
    narrow = key_of(product.world.tenant, "infer")
    follow = str(HERE / "follow_with_openai.py")
    got = json.loads(run(tmp_path, product.key, follow, product.url, product.key, narrow, str(rows)))

    assert got["before"] == ["tiny"]
    assert got["file"][1:] == [rows.stat().st_size, "processed", "fine-tune"]
    assert (got["listed"], got["same"]) == ([got["file"][0]], True)
    assert (got["statuses"][0], got["statuses"][-1]) == ("validating_files", "succeeded")
    assert "running" in got["statuses"]
    assert got["job"] == ["acme/mood:2", None, True]
    assert ["info", "message", "The job is succeeded."] in got["events"]
    assert "metrics" in {kind for _, kind, _ in got["events"]}
    assert got["checkpoints"] == ["acme/mood:2"]
    assert {"step", "loss", "dev_accuracy", "test_accuracy"} <= set(got["results"][0].split(","))
    assert (got["jobs"], got["model"]) == ([True], "acme/mood:2")
    assert got["after"] == ["acme/mood", "tiny"]
    assert got["errors"] == {
        "nobody": ["AuthenticationError", 401, "invalid_api_key", None, 1],
        "scope": ["PermissionDeniedError", 403, "forbidden", None, 1],
        "model": ["NotFoundError", 404, "model_not_found", "model", 1],
        "file": ["NotFoundError", 404, "not_found", "file_id", 1],
        "base": ["NotFoundError", 404, "model_not_found", "model", 1],
        "taken": ["ConflictError", 409, "conflict", "suffix", 1],
        "ended": ["ConflictError", 409, "invalid_transition", None, 1],
        "epochs": ["BadRequestError", 400, "invalid_field", "hyperparameters.n_epochs", 1],
        "tokens": ["BadRequestError", 400, "invalid_field", "input", 1],
        "purpose": ["BadRequestError", 400, "invalid_field", "purpose", 1],
    }
    assert got["embeddings"] == ["acme/mood:2", [32, 32], 3]
    assert got["batch"][:3] == ["BadRequestError", 400, "invalid_field"]
    assert got["deleted"] == [True, True]
    assert got["strange"] == []

    ready_writer(home_of(product.world), tmp_path)
    said = run(tmp_path, product.key, "-", sent=examples(product))
    assert said.startswith("acme/tickets:2\n")
    answers = [json.loads(line) for line in said.split("\n") if line.startswith('{"id":"batch_req')]
    assert [answer["custom_id"] for answer in answers] == ["text 0", "text 1"]
    assert all(len(answer["response"]["body"]["data"][0]["embedding"]) == 32 for answer in answers)


@pytest.mark.usefixtures("patient_limits")
def test_it_is_told_to_wait_hears_that_nobody_answers_and_cancels_what_runs(
    site: Product, service_env: dict[str, str], tmp_path: Path
) -> None:
    """Jobs run; nobody serves models."""
    rows = tmp_path / "tickets.jsonl"
    rows.write_text(jsonl(mood_rows()))
    mood = tiny_hplm(tiny_root(tmp_path / "same"), "classification")
    site.world.ready_hplm(site.root, mood, tmp_path, name="mood")
    slow = api_key_create(
        tenant=site.world.tenant,
        name="slow",
        scopes=["infer", "manage"],
        created_by=None,
        requests_per_minute=1,
    )[1]
    jobs = CeleryWorker(service_env, tmp_path, queue="training,quick,long")
    try:
        refused = str(HERE / "refused_with_openai.py")
        got = json.loads(run(tmp_path, site.key, refused, site.url, site.key, slow, str(rows)))
    finally:
        jobs.end()
    assert "Fine-tune was canceled." in got.pop("events")
    assert got == {
        "first": ["acme/mood", "tiny"],
        "second": ["RateLimitError", 429, "rate_limit_exceeded", True],
        "nobody": ["InternalServerError", 503, "worker_unavailable", True],
        "before": "running",
        "cancel": [True, "cancelled"],
    }

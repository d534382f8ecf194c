"""From a file to answers with the command alone, while real workers train and serve."""

import json
from pathlib import Path

import pytest

from hmi_client import Client
from tests.integration.hmi_client.conftest import Hmi, Product
from tests.integration.jobs.world import SMALL_FINE_TUNE, mood_rows
from tests.unit.tenants.files import jsonl

pytestmark = pytest.mark.slow
SETTINGS = [f"--setting={name}={value}" for name, value in SMALL_FINE_TUNE.items()]


def test_data_is_pushed_a_model_trained_asked_updated_and_rolled_back(
    product: Product, logged_in: Hmi, tmp_path: Path
) -> None:
    hmi = logged_in
    file = tmp_path / "moods.jsonl"
    file.write_text(jsonl(mood_rows()))
    assert hmi("data", "push", file, "--task", "classification", "--name", "mine").code == 0

    trained = hmi("train", "mood", "--data", "mine", "--parent", "tiny", *SETTINGS, "--wait", "--json")
    assert trained.code == 0, trained.err
    version = json.loads(trained.out)
    assert (version["state"], version["number"]) == ("ready", 1)
    assert "fine_tune: succeeded" in trained.err
    tailed = hmi("jobs", "tail", version["jobs"][0]["id"], "--json")
    assert json.loads(tailed.out.splitlines()[-1])["kind"] == "succeeded"

    ran = hmi("infer", "mood", "the good river", "a bad stone", "--json")
    assert ran.code == 0, ran.err
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert [answer["input"] for answer in answers] == ["the good river", "a bad stone"]
    assert {answer["result"]["label"] for answer in answers} <= {"good", "bad"}
    assert answers[0]["model"]["digest"] == version["digest"]
    ran = hmi("infer", "mood", "--batch-size", "2", stdin="one good\n\ntwo bad\nthree good\n")
    assert (ran.code, ran.out.count("acme/mood:1")) == (0, 2), ran.err

    updated(product, version["config"]["dataset"]["id"])
    assert "now version 1" in hmi("models", "rollback", "mood").err
    assert hmi("infer", "mood", "good", "--json").out.count('"version": 1') == 1


def updated(product: Product, dataset: int) -> None:
    """Train a second version with the Python client."""
    with Client(product.url, product.key) as client:
        version = client.update_model("mood", dataset=dataset)
        seen = list(client.watch_version(version.id, poll_s=0.1))
        assert {job.kind for job in seen if job.state == "succeeded"} == {"fine_tune", "evaluate"}
        assert client.wait_for_version(version.id).state == "ready"
        answer = client.infer("mood", ["good"], explain=True)
        assert answer.model.version == 2
        assert answer.results[0]["tokens"]

"""A batch by the command, while real workers answer it, one of which is killed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone

from inference.batches.models import Batch
from tests.integration.hmi_client.conftest import Hmi, Product
from tests.processes import CeleryWorker, InferenceWorker, wait_until
from tests.unit.tiny import tiny_hplm, tiny_root
from versiontree.jobs.models import Job
from versiontree.jobs.services.lease_recovery import leases_recover

LINES = 10_000


@pytest.fixture
def inference(
    site: Product, redis_url: str, artifact_root: Path, tmp_path: Path
) -> Iterator[InferenceWorker]:
    """Serves the model `mood`."""
    hplm = tiny_hplm(tiny_root(tmp_path / "tiny"), "classification")
    site.world.ready_hplm(site.root, hplm, tmp_path, name="mood")
    worker = InferenceWorker(redis_url, artifact_root)
    yield worker
    worker.kill()


def test_batch_of_a_killed_worker_is_completed(
    site: Product, inference: InferenceWorker, logged_in: Hmi, service_env: dict[str, str], tmp_path: Path
) -> None:
    file, out = tmp_path / "texts.jsonl", tmp_path / "answers.jsonl"
    file.write_text("".join(f'{{"text": "the river {at}", "id": "{at}"}}\n' for at in range(LINES)))
    file.write_text(file.read_text() + "no text\n")
    inference.wait_until_ready()
    workers = [CeleryWorker(service_env, tmp_path, queue="long")]
    try:
        begun = logged_in("batches", "run", "mood", file, "--no-wait", "--json")
        assert begun.code == 0, begun.err
        batch = json.loads(begun.out)["id"]
        wait_until(lambda: Batch.unscoped.get(pk=batch).lines > 0, workers[0])
        workers[0].end()
        reached = Batch.unscoped.get(pk=batch)
        assert (reached.state, 0 < reached.lines < LINES) == ("running", True)
        Job.unscoped.filter(subject=batch).update(lease_expires_at=timezone.now())
        workers.append(CeleryWorker(service_env, tmp_path, queue="long"))
        leases_recover()
        ended = logged_in("batches", "fetch", batch, "--out", out, "--errors", tmp_path / "errors", "--json")
        assert ended.code == 1, ended.err
    finally:
        for worker in workers:
            worker.end()
    told = json.loads(ended.out)
    assert told["errors_file"] == str(tmp_path / "errors")
    assert json.loads(ended.err)["error"]["code"] == "lines_failed"
    assert (told["succeeded"], told["failed"]) == (LINES, 1)
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    assert [int(answer["id"]) for answer in answers] == list(range(LINES))
    assert json.loads((tmp_path / "errors").read_text())["line"] == LINES + 1
    assert logged_in("batches", "list", "--json").out.count(batch) == 1
    assert logged_in("batches", "cancel", batch).code == 5
    assert logged_in("batches", "delete", batch, "--yes").code == 0
    assert logged_in("batches", "fetch", batch).code == 4

"""The log of a Celery worker."""

import json
import uuid
from itertools import dropwhile
from pathlib import Path

import pytest

from tests.integration.jobs.world import World
from tests.processes import CeleryWorker, wait_until
from workers.tasks import run_job

pytestmark = pytest.mark.slow


def test_a_worker_logs_as_the_site_does(world: World, service_env: dict[str, str], tmp_path: Path) -> None:
    """Celery's own lines, and those of a job's process."""
    worker = CeleryWorker({**service_env, "HMI_LOG_FORMAT": "json"}, tmp_path)
    try:
        gone = uuid.uuid4()
        run_job.apply_async((str(gone),), queue="training")
        wait_until(lambda: f"{gone} is not queued" in worker.output(), worker)
        wait_until(lambda: "succeeded in" in worker.output(), worker)
        # Python itself warns a root user before there is a log.
        written = dropwhile(lambda line: not line.startswith("{"), worker.output().splitlines())
        lines = [json.loads(line) for line in written]
    finally:
        worker.end()
    said = {line["logger"]: line for line in lines}
    assert {"celery.worker.strategy", "celery.app.trace", "workers.runner"} <= set(said)
    assert said["workers.runner"]["level"] == "info"

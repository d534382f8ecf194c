"""Real workers for a test: Celery's, and those that answer infer requests."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import redis
from django.utils import timezone

from inference.queueing.status import workers_alive
from versiontree.models import Job
from versiontree.services.jobs import jobs_reap

REPOSITORY = Path(__file__).resolve().parents[3]
PATIENCE_S = 60.0


class CeleryWorker:
    """`celery worker` on the training queue, as the launcher starts it; in a process group of its own."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        self.ready_file = folder / f"ready-{time.monotonic_ns()}"
        self.log = self.ready_file.with_suffix(".log")
        self.process = subprocess.Popen(
            f"{sys.executable} -m celery -A hmi_site worker --queues training --concurrency 1"
            f" --without-gossip --without-mingle --loglevel INFO --hostname {self.log.stem}@%h".split(),
            cwd=REPOSITORY,
            env={**os.environ, **env, "HMI_READY_FILE": str(self.ready_file), "OMP_NUM_THREADS": "1"},
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        wait_until(self.ready_file.exists, self)

    def terminate(self, within_s: float = 30.0) -> int:
        """Ask it to stop, as the launcher does; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    def kill(self) -> None:
        """Kill the main process only; its pool processes must not outlive it."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Leave nothing behind, whatever the test did."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def descendants(self) -> list[psutil.Process]:
        """Its pool process, and the process of the job that is running."""
        return list(psutil.Process(self.process.pid).children(recursive=True))


class InferenceWorker:
    """`python -m inference.worker`, as the launcher starts it."""

    def __init__(self, artifact_root: Path, redis_url: str) -> None:
        self.name = f"test-{os.urandom(4).hex()}"
        self.log = artifact_root.parent / f"{self.name}.log"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "inference.worker"],
            cwd=REPOSITORY,
            env={
                **os.environ,
                "HMI_REDIS_URL": redis_url,
                "HMI_ARTIFACT_ROOT": str(artifact_root),
                "HMI_WORKER_NAME": self.name,
                "HMI_DEVICE": "cpu",
                "HMI_DTYPE": "fp32",
                "OMP_NUM_THREADS": "1",
            },
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
        )
        self._redis_url = redis_url
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """It takes requests: also again, after Valkey was emptied."""
        with redis.Redis.from_url(self._redis_url) as client:
            wait_until(lambda: self._is_ready(client), self)

    def pause(self) -> None:
        """As if it were busy with something long."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on."""
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Drain and end."""
        self.resume()
        self.process.terminate()
        self.process.wait(30)

    def _is_ready(self, client: redis.Redis) -> bool:
        return any(worker.name == self.name and worker.state == "ready" for worker in workers_alive(client))


def wait_until(
    happened: Callable[[], object],
    worker: "CeleryWorker | InferenceWorker | None" = None,
    *,
    within_s: float = PATIENCE_S,
) -> None:
    """Wait for something, and say what the worker's log said if it never comes."""
    deadline = time.monotonic() + within_s
    while not happened():
        log = worker.log.read_text()[-4000:] if worker else ""
        assert worker is None or worker.process.poll() is None, f"the worker ended:\n{log}"
        assert time.monotonic() < deadline, f"it never happened:\n{log}"
        time.sleep(0.05)


def state_of(job: Job) -> str:
    """The job's state as the database has it now."""
    return Job.unscoped.values_list("state", flat=True).get(pk=job.pk)


def let_lease_run_out(job: Job) -> None:
    """Half a minute passes, and the reaper comes by."""
    Job.unscoped.filter(pk=job.pk, state="running").update(lease_until=timezone.now())
    jobs_reap()

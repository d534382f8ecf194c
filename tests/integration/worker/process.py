"""The worker as its own process."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from redis import Redis

from inference.queueing import keys
from inference.queueing.status import WorkerStatus, workers_alive
from tests.integration.worker.asking import until

CHECKOUT = Path(__file__).parents[3]
_count = iter(range(10**6))


class WorkerProcess:
    """``python -m inference.worker``, with short-lived heartbeats."""

    def __init__(self, redis_url: str, artifact_root: Path, **env: str) -> None:
        self.name = f"worker-{os.getpid()}-{next(_count)}"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the test
        self.redis = Redis.from_url(redis_url)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "inference.worker"],
            cwd=CHECKOUT,
            env={
                "PATH": os.environ["PATH"],
                "OMP_NUM_THREADS": "1",
                "HMI_REDIS_URL": redis_url,
                "HMI_ARTIFACT_ROOT": str(artifact_root),
                "HMI_WORKER_NAME": self.name,
                "HMI_WORKER_LIFE_S": "0.6",
                "HMI_DEVICE": "cpu",
                "HMI_DTYPE": "float32",
                **env,
            },
            stderr=self._log,
        )

    def status(self) -> WorkerStatus | None:
        """What it says about itself, None while it has no heartbeat."""
        return next((worker for worker in workers_alive(self.redis) if worker.name == self.name), None)

    def until_ready(self) -> "WorkerProcess":
        until(lambda: (status := self.status()) is not None and status.state == "ready", 60)
        return self

    def pending(self) -> int:
        """Requests it took and has not answered."""
        return len(
            self.redis.xpending_range(keys.REQUESTS, keys.GROUP, "-", "+", 1000, consumername=self.name)
        )

    def terminate(self) -> int:
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()

    def said(self) -> str:
        """Its log so far."""
        self._log.seek(0)
        return self._log.read().decode()

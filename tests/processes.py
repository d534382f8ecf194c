"""Programs of the product in processes of their own, as a test sees them."""

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
from redis import Redis

from inference.queueing import keys
from inference.queueing.status import WorkerStatus, workers_alive

CHECKOUT = Path(__file__).resolve().parents[1]
PATIENCE_S = 600.0
"""Longer than a busy machine takes for anything that a test waits for."""
KEPT = ("PATH", "OMP_WAIT_POLICY")
POLL_S, LONGEST_POLL_S = 0.01, 0.05
_serial = itertools.count()


class Program:
    """A running Python program. Its output is kept: a test that waits in vain shows the end of it."""

    def __init__(self, *arguments: str, env: Mapping[str, str], own_group: bool = False) -> None:
        self._output = tempfile.NamedTemporaryFile()  # noqa: SIM115 - it is closed with the test
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=CHECKOUT,
            env={**{name: os.environ[name] for name in KEPT}, "OMP_NUM_THREADS": "1", **env},
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=own_group,
        )

    def output(self) -> str:
        """What it has written so far."""
        return Path(self._output.name).read_text()

    def terminate(self, within_s: float = 30.0) -> int:
        """Ask it to stop, as the launcher does; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    def kill(self) -> None:
        """SIGKILL, for the main process only."""
        self.process.kill()
        self.process.wait()

    def descendants(self) -> list[psutil.Process]:
        """All that it has started and that still runs."""
        return list(psutil.Process(self.process.pid).children(recursive=True))


class InferenceWorker(Program):
    """`python -m inference.worker`, as the launcher starts it; or a program that does more."""

    def __init__(
        self,
        redis_url: str,
        artifact_root: Path,
        *,
        program: str = "",
        life_s: float = 5.0,
        stuck_s: float = 120.0,
        **env: str,
    ) -> None:
        self.name = f"worker-{os.getpid()}-{next(_serial)}"
        self.redis = Redis.from_url(redis_url)
        own = {
            "REDIS_URL": redis_url,
            "HMI_ARTIFACT_ROOT": str(artifact_root),
            "HMI_DEVICE": "cpu",
            "HMI_DTYPE": "float32",
            "OMP_NUM_THREADS": "2",  # two batches compute side by side, as on any machine with cores
        }
        arguments = ("-c", program) if program else ("-m", "inference.worker")
        options = ("--name", self.name, "--life-s", str(life_s), "--stuck-s", str(stuck_s))
        super().__init__(*arguments, *options, env={**own, **env})

    def status(self) -> WorkerStatus | None:
        """What it says about itself, None while it has no heartbeat."""
        return next((worker for worker in workers_alive(self.redis) if worker.name == self.name), None)

    def told(self) -> WorkerStatus:
        """What it says about itself, as soon as it says it: a machine that stalls may let a heartbeat end."""
        told: list[WorkerStatus] = []

        def tells() -> bool:
            told.extend([status] if (status := self.status()) else [])
            return bool(told)

        wait_until(tells, self)
        return told[-1]

    def wait_until_ready(self) -> "InferenceWorker":
        """Wait until it takes requests: also again, after Valkey was emptied. One that never does is killed:
        it would take the requests of the tests that follow."""
        try:
            wait_until(lambda: (status := self.status()) is not None and status.state == "ready", self)
        except BaseException:
            self.kill()
            raise
        return self

    def pending(self) -> int:
        """Requests it took and has not answered."""
        return sum(
            len(self.redis.xpending_range(stream, keys.GROUP, "-", "+", 1000, consumername=self.name))
            for stream in self.redis.scan_iter(keys.requests("*"))
        )

    def pause(self) -> None:
        """As if it were busy with something long."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Go on."""
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def starting_workers(
    redis_url: str, artifact_root: Path, **usual: str
) -> Iterator[Callable[..., InferenceWorker]]:
    """Start inference workers with short heartbeats: ``start(HMI_BATCH_ROWS="1")``. None outlives the
    block."""
    started: list[InferenceWorker] = []

    def start(url: str = redis_url, *, stuck_s: float = 120.0, **env: str) -> InferenceWorker:
        settings = {**usual, **env}
        started.append(InferenceWorker(url, artifact_root, life_s=0.6, stuck_s=stuck_s, **settings))
        return started[-1]

    try:
        yield start
    finally:
        for worker in started:
            worker.kill()


class CeleryWorker(Program):
    """`celery worker` on a queue, as the launcher starts it; in a process group of its own."""

    def __init__(
        self, env: Mapping[str, str], folder: Path, queue: str = "training", concurrency: int = 1
    ) -> None:
        ready_file = folder / f"ready-{time.monotonic_ns()}"
        size = f"--queues {queue} --concurrency {concurrency}"
        options = f"-A hmi_site worker {size} --without-gossip --without-mingle"
        super().__init__(
            *f"-m celery --quiet {options} --loglevel INFO --hostname {ready_file.name}@%h".split(),
            env={**os.environ, **env, "HMI_READY_FILE": str(ready_file), "OMP_NUM_THREADS": "1"},
            own_group=True,
        )
        wait_until(ready_file.exists, self)

    def end(self) -> None:
        """Leave nothing behind, whatever the test did."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def wait_until(
    happened: Callable[[], object], program: Program | None = None, *, within_s: float = PATIENCE_S
) -> None:
    """Wait for something, and say what the program wrote if it never comes."""
    deadline, pause_s = time.monotonic() + within_s, POLL_S
    while True:
        late = time.monotonic() > deadline  # known before looking: whoever stalled until then looks once more
        if happened():
            return
        output = program.output()[-4000:] if program else ""
        assert program is None or program.process.poll() is None, f"the program ended:\n{output}"
        assert not late, f"it never happened:\n{output}"
        time.sleep(pause_s)
        pause_s = min(1.1 * pause_s, LONGEST_POLL_S)  # what takes seconds is not hurried by being looked at

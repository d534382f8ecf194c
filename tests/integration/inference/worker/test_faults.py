"""The worker as a real process, killed, stopped, cut off and misled."""

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis

from inference.hplm.hplm import WEIGHTS_FILE
from inference.queueing import keys
from inference.queueing.messages import InferRequest
from inference.queueing.status import roots_served_lately
from inference.queueing.transport import RequestQueue
from inference.serving.environment import SettingError, WorkerSettings
from tests.integration.inference.queueing.requests import depth, replies_in
from tests.integration.inference.worker.asking import assert_right, request_for, stop_at_work
from tests.integration.inference.worker.held_files import HeldFile
from tests.processes import PATIENCE_S, InferenceWorker, wait_until
from tests.services import OwnValkey
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld

Start = Callable[..., InferenceWorker]


def submit(redis: Redis, world: TinyWorld, count: int, *, inputs: int = 1) -> list[InferRequest]:
    queue = RequestQueue(redis, capacity=10_000)
    requests = [
        request_for(world.hplms[n % 6], *tiny_texts(inputs, seed=n, longest=60)) for n in range(count)
    ]
    for request in requests:
        queue.submit(request)
    return requests


LOOKED_AT = 8
"""Of so many answers it is computed what is right: that takes longer than the answers themselves."""


def assert_all_answered_once(redis: Redis, world: TinyWorld, requests: list[InferRequest]) -> None:
    wait_until(lambda: depth(redis) == 0)
    replies = replies_in(redis)
    assert Counter(reply.id for reply in replies) == Counter(request.id for request in requests)
    by_id = {reply.id: reply for reply in replies}
    for request in requests[:: max(1, len(requests) // LOOKED_AT)]:
        assert_right(world, request, by_id[request.id])


def test_a_worker_killed_or_stopped_in_the_middle_of_a_batch_loses_nothing(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    """Killed, it is not ready for long; stopped, it answers what it has taken and leaves the rest."""
    first = start_worker(HMI_BATCH_ROWS="4").wait_until_ready()
    requests: list[InferRequest] = []
    stop_at_work(first, lambda: requests.extend(submit(redis, world, 12, inputs=40)))
    first.kill()
    assert first.pending() > 0
    wait_until(lambda: first.status() is None)
    second = start_worker(HMI_BATCH_ROWS="2").wait_until_ready()
    assert_all_answered_once(redis, world, requests)
    assert second.pending() == 0

    stop_at_work(second, lambda: requests.extend(submit(redis, world, 30, inputs=20)))
    second.process.terminate()
    second.resume()
    assert second.process.wait(PATIENCE_S) == 0
    assert second.pending() == 0
    assert second.status() is None
    assert depth(redis) > 0
    consumers: Any = redis.xinfo_consumers(keys.requests(world.root_digest), keys.GROUP)
    assert second.name not in {consumer["name"].decode() for consumer in consumers}
    start_worker().wait_until_ready()
    assert_all_answered_once(redis, world, requests)


def test_a_worker_waits_for_a_queue_that_is_not_there_yet_and_goes_on_after_it_was_restarted(
    own_server: OwnValkey, world: TinyWorld, start_worker: Start
) -> None:
    own_server.kill()
    worker = start_worker(own_server.url)
    wait_until(lambda: "waiting for the queue" in worker.output(), worker)
    own_server.start()
    worker.wait_until_ready()
    redis = Redis.from_url(own_server.url)
    before = submit(redis, world, 6)
    wait_until(lambda: depth(redis) == 0, worker)
    own_server.kill()
    wait_until(lambda: "cannot be reached" in worker.output())
    own_server.start()
    worker.wait_until_ready()
    after = submit(redis, world, 6)
    assert_all_answered_once(redis, world, before + after)
    wait_until(lambda: (status := worker.status()) is not None and status.last_error == "", worker)
    assert worker.terminate() == 0


def test_readiness_comes_after_the_first_manifest_too(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    manifest = world.artifact_root / "manifest.json"
    content = manifest.read_bytes()
    manifest.unlink()
    worker = start_worker().wait_until_ready()
    status = worker.told()
    assert (status.roots, status.hplms, status.device, status.dtype) == ((), 0, "cpu", "float32")
    manifest.write_bytes(content)
    requests = submit(redis, world, 6)
    assert_all_answered_once(redis, world, requests)
    wait_until(
        lambda: (status := worker.status()) is not None and status.batches > 0 and status.hplms == 6,
        worker,
    )


def test_a_wrong_setting_stops_the_start_and_is_named(start_worker: Start) -> None:
    worker = start_worker(HMI_LOG_LEVEL="loud")
    assert worker.process.wait(PATIENCE_S) == 2
    assert "HMI_LOG_LEVEL" in worker.output()
    assert "loud" in worker.output()


@pytest.mark.parametrize("value", ["many", "0"])
def test_a_number_out_of_bounds_is_refused(value: str) -> None:
    env = {"REDIS_URL": "redis://absent", "HMI_ARTIFACT_ROOT": "absent", "HMI_BATCH_ROWS": value}
    with pytest.raises(SettingError, match=f"HMI_BATCH_ROWS.*{value}"):
        WorkerSettings.from_env(env)


def test_a_worker_that_hangs_ends_itself_and_others_do_its_work(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    held = HeldFile(world.folder("hplm", world.hplms[0].digest) / WEIGHTS_FILE)
    first = start_worker(stuck_s=1).wait_until_ready()
    requests = submit(redis, world, 12)
    assert first.process.wait(60) == os.EX_SOFTWARE
    assert first.status() is None
    assert "CRITICAL inference.serving.watchdog: a loop has been stuck for 1 s" in first.output()
    assert "in acquire" in first.output()  # where it hung
    held.put_back()
    start_worker().wait_until_ready()
    assert_all_answered_once(redis, world, requests)


LOSES_ITS_DEVICE = """
import sys
import torch
from inference.engine.executor import Executor
from inference.worker import main

compute = Executor._compute

def lost(self, rows, *given):
    if rows[0].key == "0":  # not those that warm it up
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    return compute(self, rows, *given)

Executor._compute = lost
sys.exit(main())
"""


def test_a_worker_that_loses_its_device_ends_itself_and_others_do_its_work(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    first = start_worker(program=LOSES_ITS_DEVICE).wait_until_ready()
    requests = submit(redis, world, 12)
    assert first.process.wait(60) == os.EX_SOFTWARE
    assert "illegal memory access" in first.output()
    start_worker().wait_until_ready()
    assert_all_answered_once(redis, world, requests)


FAILS = """
import os, sys, torch
from pathlib import Path
from inference import worker

told = Path(os.environ["HMI_ARTIFACT_ROOT"]) / "fail"
place, name = {place}, "{name}"
before = getattr(place, name)

def fails(*given, **more):
    if told.exists():
        raise {error}
    return before(*given, **more)

setattr(place, name, fails)
sys.exit(worker.main())
"""
LOST = 'torch.AcceleratorError("CUDA error: an illegal memory access was encountered")'


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [
        ("worker", "used_and_total_bytes", LOST),  # asked by the heartbeat
        ("worker.DecoderScheduler", "step", "AssertionError('of its own')"),
    ],
)
def test_a_worker_that_waits_for_requests_ends_itself_with_any_of_its_threads(
    world: TinyWorld, start_worker: Start, place: str, name: str, error: str
) -> None:
    worker = start_worker(program=FAILS.format(place=place, name=name, error=error)).wait_until_ready()
    (world.artifact_root / "fail").touch()
    assert worker.process.wait(60) == os.EX_SOFTWARE
    assert ("illegal memory access" if error == LOST else "of its own") in worker.output()


HAS_A_DEAD_GPU = """
import sys
import torch
from inference.worker import main

def lost(*_):
    raise RuntimeError("No CUDA GPUs are available")

torch.version.cuda = "13.0"
torch.cuda.current_device = lost
sys.exit(main())
"""


def test_requests_are_refused_at_once_while_the_device_of_the_only_worker_is_dead(
    redis: Redis, redis_url: str, world: TinyWorld, start_worker: Start
) -> None:
    first = start_worker().wait_until_ready()
    first.kill()
    assert world.root_digest in roots_served_lately(redis)  # so requests wait for the next worker
    second = InferenceWorker(redis_url, world.artifact_root, program=HAS_A_DEAD_GPU, HMI_DEVICE="cuda")
    assert second.process.wait(60) == os.EX_UNAVAILABLE
    for fact in ("No CUDA GPUs are available", "built for CUDA 13.0", "driver is"):
        assert fact in second.output()
    assert "Traceback" not in second.output()
    assert roots_served_lately(redis) == frozenset()


def test_a_worker_that_was_stopped_as_a_whole_or_has_nothing_to_do_does_not_hang(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    worker = start_worker(stuck_s=3).wait_until_ready()
    time.sleep(4)
    worker.pause()
    time.sleep(4)
    worker.resume()
    worker.wait_until_ready()
    assert_all_answered_once(redis, world, submit(redis, world, 6))
    assert worker.terminate() == 0

"""An inference worker on a GPU that is killed: nothing is lost, and the next one has the device."""

import os
from collections.abc import Callable
from typing import Final

import pytest
import torch
from redis import Redis

from inference.queueing.messages import InferRequest
from tests.integration.conftest import redis
from tests.integration.inference.worker.asking import stop_at_work
from tests.integration.inference.worker.conftest import built, start_worker, world
from tests.integration.inference.worker.test_faults import assert_all_answered_once, submit
from tests.processes import InferenceWorker, wait_until
from tests.unit.tiny_world import TinyWorld

pytestmark = pytest.mark.slow

__all__ = ["built", "redis", "start_worker", "world"]

OF_THE_MACHINE: Final = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "HOME")
"""What a process may need to find the GPU, and a place for compiled kernels."""


def test_a_worker_killed_in_the_middle_of_a_batch_loses_nothing_and_frees_its_device(
    device: torch.device, redis: Redis, world: TinyWorld, start_worker: Callable[..., InferenceWorker]
) -> None:
    own = {name: os.environ[name] for name in OF_THE_MACHINE if name in os.environ}
    own["HMI_DEVICE"] = device.type
    first = start_worker(HMI_BATCH_ROWS="4", **own).wait_until_ready()
    requests: list[InferRequest] = []
    stop_at_work(first, lambda: requests.extend(submit(redis, world, 12, inputs=40)))
    first.kill()
    wait_until(lambda: first.status() is None)
    second = start_worker(**own).wait_until_ready()
    assert_all_answered_once(redis, world, requests)
    assert second.told().device.startswith(device.type)
    assert second.terminate() == 0

"""The priority of threads that compute."""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from inference.engine.compute_threads import lower_priority

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_thread_and_its_helpers_stand_back_and_no_other_does() -> None:
    before, tasks = niceness(), {*Path("/proc/self/task").iterdir()}

    lowered = min(19, before + 1)

    def compute() -> int:
        lower_priority(1)
        torch.set_num_threads(2)
        torch.ones(2_000_000).cumsum(0).add(1.0).sum()
        return niceness()

    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(compute).result() == lowered
            started = {*Path("/proc/self/task").iterdir()} - tasks
            assert {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in started} == {lowered}
    finally:
        torch.set_num_threads(threads)
    assert niceness() == before

"""Memory that a batch frees is there for the next one, whichever thread computes it."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BATCHES = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
import torch
from inference.engine.allocator import keep_freed_memory

torch.set_num_threads(1)
if sys.argv[1] == "kept" and not keep_freed_memory():
    sys.exit(3)

def batch(_):
    kept = []
    for _ in range(4):
        kept.append(torch.ones(5, 1024, 1024))

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

with ThreadPoolExecutor(2) as stages:
    list(stages.map(batch, range(100)))
    before = faults()
    list(stages.map(batch, range(40)))
print(faults() - before)
"""


def page_faults(way: str) -> int:
    """Of 40 batches in two threads, which take 80 MB each, once 100 others are done."""
    done = subprocess.run(
        [sys.executable, "-c", BATCHES, way],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={name: value for name, value in os.environ.items() if name != "THP_MEM_ALLOC_ENABLE"},
    )
    if done.returncode == 3:
        pytest.skip("this C library cannot be told")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_what_a_batch_frees_is_not_asked_of_the_system_again() -> None:
    assert page_faults("kept") < max(100, page_faults("not kept") / 4)

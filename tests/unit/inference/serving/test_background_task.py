"""Work that is done beside the loop, loops that hang, and threads that fail."""

import gc
import os
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest

from inference.serving.catalogue import BackgroundTask
from inference.serving.watchdog import Watchdog


def test_result_can_be_taken_once_when_it_is_done() -> None:
    ahead, go_on = BackgroundTask[str]("test"), Event()
    assert ahead.take(wait=True) is None

    def work() -> str:
        go_on.wait()
        return "made"

    ahead.begin(work)
    assert ahead.take() is None
    assert ahead.under_way
    go_on.set()
    assert ahead.take(wait=True) == "made"
    assert (ahead.under_way, ahead.take(wait=True)) == (False, None)


def test_error_is_raised_when_taken_and_the_next_task_can_start() -> None:
    ahead = BackgroundTask[int]("test")
    ahead.begin(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        ahead.take(wait=True)
    ahead.begin(lambda: 2)
    assert ahead.take(wait=True) == 2


class Weights:
    """What was loaded before there was no memory left."""


def test_memory_of_failed_work_is_released_when_its_error_is_taken() -> None:
    ahead, loaded = BackgroundTask[None]("test"), list[weakref.ref[Weights]]()

    def work() -> None:
        weights = Weights()
        loaded.append(weakref.ref(weights))
        raise MemoryError

    gc.disable()
    try:
        ahead.begin(work)
        with suppress(MemoryError):
            ahead.take(wait=True)
        assert loaded[0]() is None
    finally:
        gc.enable()


def test_a_loop_hangs_when_it_has_begun_and_made_no_turn_for_long() -> None:
    turns = 0
    watch = Watchdog(lambda: turns, every_s=2.0, stuck_s=5.0)
    assert [watch.hangs() for _ in range(5)] == [False] * 5  # it still loads
    turns = 1
    assert [watch.hangs() for _ in range(3)] == [False] * 3
    turns = 2
    assert [watch.hangs() for _ in range(4)] == [False, False, False, True]


CHECKOUT = Path(__file__).resolve().parents[4]
PROGRAM = """
import time
from inference.serving.watchdog import end_process_with_any_thread
from inference.periodic_thread import PeriodicThread

def act():
    raise {error}

end_process_with_any_thread()
PeriodicThread("heartbeat", act, interval_s=0.01).start()
while True:  # as a loop that has nothing to do
    time.sleep(1)
"""


@pytest.mark.parametrize("error", ["ZeroDivisionError('of its own')", "KeyboardInterrupt('of its own')"])
def test_uncaught_exception_in_a_thread_ends_the_process(error: str) -> None:
    program = PROGRAM.format(error=error)
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == os.EX_SOFTWARE
    assert "the thread 'heartbeat' has failed" in ended.stderr
    assert "of its own" in ended.stderr

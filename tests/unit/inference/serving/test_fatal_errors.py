"""No process lives on without one of its threads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
def test_an_exception_that_nobody_caught_in_a_thread_ends_the_process(error: str) -> None:
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

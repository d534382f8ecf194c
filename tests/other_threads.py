"""Whether other threads of the process run while something is computed."""

import sys
import threading
from collections.abc import Callable


def turns_meanwhile(compute: Callable[[], object]) -> int:
    """How often another thread, which asks for Python's lock every millisecond, gets it. Whoever has it gives
    it up at once when asked, if it runs Python; so a busy machine makes no difference."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    turns, ended, begun = 0, threading.Event(), threading.Event()

    def take_turns() -> None:
        nonlocal turns
        begun.set()
        while not ended.wait(0.001):
            turns += 1

    thread = threading.Thread(target=take_turns)
    thread.start()
    try:
        begun.wait()
        compute()
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(interval)
    return turns

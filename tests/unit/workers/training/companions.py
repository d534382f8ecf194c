"""What companions do that are ended: in a module of its own, which takes them no seconds to import."""

import multiprocessing
import time

from workers.training.multi_gpu import peer_processes


def idle(*, reporter: object) -> None:
    """What a companion does that nobody ends."""
    time.sleep(600)


def lead() -> None:
    """Start a companion, say which process it is, and wait to be killed."""
    with peer_processes(idle, {}, (), 2, cpu=True):
        print(*[one.pid for one in multiprocessing.active_children()], flush=True)  # noqa: T201
        time.sleep(600)

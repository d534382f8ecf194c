"""Work that many ask for at about the same time, in threads and processes."""

import fcntl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.processes import CHECKOUT, wait_until
from versiontree.tree.single_flight import single_flight

OTHER_PROCESS = """
import sys
from pathlib import Path
from versiontree.tree.single_flight import single_flight
single_flight(Path(sys.argv[1]), lambda: print("worked"))
"""


class Work:
    """Work that goes on until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self._go_on = threading.Event()

    def __call__(self) -> None:
        self.begun += 1
        assert self._go_on.wait(30)

    def let_go(self) -> None:
        self._go_on.set()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def ask(lock: Path, work: Work) -> Iterator[Callable[[], Future[None]]]:
    """Asks for the work in a thread of its own."""
    with ThreadPoolExecutor(20) as pool:
        yield lambda: pool.submit(single_flight, lock, work)
        work.let_go()


def wait_for_askers(lock: Path, count: int) -> None:
    """Until so many wait for their turn, as the kernel's table of locks has it."""
    inode = f":{lock.stat().st_ino} "
    table = Path("/proc/locks")
    wait_until(lambda: sum("->" in line and inode in line for line in table.open()) == count)


def test_those_who_ask_one_after_the_other_are_each_worked_for(lock: Path, work: Work) -> None:
    work.let_go()
    for _ in range(3):
        single_flight(lock, work)
    assert work.begun == 3


def test_all_who_ask_while_one_works_share_the_next(
    lock: Path, work: Work, ask: Callable[[], Future[None]]
) -> None:
    first = ask()
    wait_until(lambda: work.begun == 1)
    others = [ask() for _ in range(10)]
    wait_for_askers(lock, 10)
    assert not first.done()
    work.let_go()
    for asked in (first, *others):
        asked.result(30)
    assert work.begun == 2


def test_work_that_was_begun_before_somebody_asked_is_not_for_them(
    lock: Path, work: Work, ask: Callable[[], Future[None]]
) -> None:
    ask()
    wait_until(lambda: work.begun == 1)
    late = ask()
    wait_for_askers(lock, 1)
    work.let_go()
    late.result(30)
    assert work.begun == 2


def test_work_that_failed_is_done_by_the_next_who_waits(lock: Path) -> None:
    tried: list[str] = []

    def work() -> None:
        tried.append("once more")
        if len(tried) == 2:
            raise OSError("no room")

    lock.touch()
    with lock.open("r+b") as turn, ThreadPoolExecutor(3) as pool:
        fcntl.flock(turn, fcntl.LOCK_EX)
        once = [pool.submit(single_flight, lock, work)]
        wait_for_askers(lock, 1)
        fcntl.flock(turn, fcntl.LOCK_UN)
        once[0].result(30)
        fcntl.flock(turn, fcntl.LOCK_EX)
        asked = [pool.submit(single_flight, lock, work) for _ in range(3)]
        wait_for_askers(lock, 3)
        fcntl.flock(turn, fcntl.LOCK_UN)
        failed = [one for one in asked if one.exception(30) is not None]
    assert (len(failed), len(tried)) == (1, 3)


def test_another_process_shares_what_this_one_does(
    lock: Path, work: Work, ask: Callable[[], Future[None]]
) -> None:
    first = ask()
    wait_until(lambda: work.begun == 1)
    second = ask()
    wait_for_askers(lock, 1)
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, str(lock)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    wait_for_askers(lock, 2)
    work.let_go()
    said, _ = other.communicate(timeout=30)
    first.result(30)
    second.result(30)
    assert work.begun + said.count("worked") == 2


def test_a_lock_that_holds_something_else_is_taken_for_new(lock: Path, work: Work) -> None:
    lock.write_text("12")
    work.let_go()
    single_flight(lock, work)
    assert work.begun == 1

"""Concurrent callers of ``single_flight`` share runs, in threads and processes."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from tests.processes import wait_until
from versiontree.tree import serving_manifest
from versiontree.tree.serving_manifest import single_flight


class Work:
    """Work that lasts until it is released."""

    def __init__(self) -> None:
        self.runs = 0
        self._released = threading.Event()

    def __call__(self) -> None:
        self.runs += 1
        self._released.wait()

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def name(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each read of the run numbers: a caller reads before it waits, and again at its turn."""
    done: list[int] = []

    def read_runs(
        handle: int, read: Callable[[int], tuple[int, int]] = serving_manifest._read_runs
    ) -> tuple[int, int]:
        found = read(handle)
        done.append(handle)
        return found

    monkeypatch.setattr(serving_manifest, "_read_runs", read_runs)
    return done


@pytest.fixture
def call(name: Path, work: Work, reads: list[int]) -> Iterator[Callable[[], Future[None]]]:
    """Calls ``single_flight`` in a thread of its own; returns once the thread waits for the lock or runs."""

    def begin() -> Future[None]:
        before = len(reads)
        future = pool.submit(single_flight, name, work)
        wait_until(lambda: len(reads) > before)
        return future

    with ThreadPoolExecutor(20) as pool:
        yield begin
        work.release()


def test_calls_one_after_the_other_each_run(name: Path, work: Work) -> None:
    work.release()
    for _ in range(3):
        single_flight(name, work)
    assert work.runs == 3


def test_callers_waiting_during_a_run_share_the_next_one(
    work: Work, call: Callable[[], Future[None]]
) -> None:
    first = call()
    wait_until(lambda: work.runs == 1)
    others = [call() for _ in range(10)]
    assert not first.done()
    work.release()
    for future in (first, *others):
        future.result()
    assert work.runs == 2


def test_next_waiting_caller_runs_after_a_failed_run(name: Path, reads: list[int]) -> None:
    tried: list[str] = []

    def work() -> None:
        tried.append("once more")
        if len(tried) == 2:
            raise OSError("no room")

    def call_while_locked(count: int) -> list[Future[None]]:
        with FileLock(f"{name}.lock"):
            before = len(reads)
            futures = [pool.submit(single_flight, name, work) for _ in range(count)]
            wait_until(lambda: len(reads) == before + count)
        return futures

    with ThreadPoolExecutor(3) as pool:
        call_while_locked(1)[0].result()
        failed = [one for one in call_while_locked(3) if one.exception() is not None]
    assert (len(failed), len(tried)) == (1, 3)


def test_a_damaged_file_of_runs_is_taken_for_new(name: Path, work: Work) -> None:
    Path(f"{name}.runs").write_text("12")
    work.release()
    single_flight(name, work)
    assert work.runs == 1

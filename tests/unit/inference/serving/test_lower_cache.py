"""Full-context lower layers within a budget: always given, loaded once, those used last stay."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from inference.errors import HplmError
from inference.hplm.architecture import Architecture
from inference.hplm.encoder import FullLower
from inference.serving.lower_layers import LowerCache, size_of


class Files:
    """A cache with room for so many modules, and what was read for it."""

    def __init__(self, *, room: int) -> None:
        self.read: list[str] = []
        self.cache = LowerCache(budget_bytes=room * size_of(self._module()))

    def get(self, *names: str) -> list[FullLower]:
        return [self.cache.get(name, lambda name=name: self._load(name)) for name in names]  # type: ignore[misc]

    def _load(self, name: str) -> FullLower:
        self.read.append(name)
        return self._module()

    @staticmethod
    def _module() -> FullLower:
        return FullLower(ARCHITECTURE, 1)


ARCHITECTURE = Architecture(
    family="bert",
    vocab=5,
    hidden=4,
    inner=4,
    layers=2,
    heads=1,
    positions=8,
    activation="gelu",
    eps=1e-12,
    embedding=4,
)


def test_least_recently_used_is_evicted_and_read_again() -> None:
    files = Files(room=2)
    files.get("a", "b", "a", "c", "a")
    assert files.read == ["a", "b", "c"]
    assert "b" not in files.cache
    files.get("b")
    assert files.read[-1] == "b"
    assert "c" not in files.cache
    assert files.cache.used_bytes <= files.cache.budget_bytes


def test_entry_larger_than_the_budget_is_returned() -> None:
    """How an answer is made must not depend on the memory there is."""
    files = Files(room=0)
    first, second = files.get("a", "b")
    assert first is not second
    assert files.cache.loads == 2
    assert "b" in files.cache
    assert "a" not in files.cache


def test_threads_that_want_the_same_load_it_once() -> None:
    files, go_on = Files(room=2), Event()

    def load() -> FullLower:
        go_on.wait()
        return files._load("a")

    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(files.cache.get, "a", load) for _ in range(4)]
        go_on.set()
        assert len({id(each.result()) for each in asked}) == 1
    assert files.read == ["a"]


def test_failed_load_is_an_error_and_takes_no_room() -> None:
    files = Files(room=1)

    def fail() -> FullLower:
        raise HplmError("corrupt_artifact", "no such disk")

    with pytest.raises(HplmError, match="no such disk"):
        files.cache.get("a", fail)
    assert files.cache.used_bytes == 0
    assert files.get("a")


def test_unreferenced_entries_are_dropped() -> None:
    files = Files(room=2)
    files.get("a", "b")
    files.cache.keep({"a"})
    assert "b" not in files.cache
    assert files.cache.has_room is False
    files.cache.keep(())
    assert files.cache.used_bytes == 0

"""Lower layers within a budget: never pushed out while in use, and no more loading than answering."""

from functools import partial
from threading import Event

import pytest
from torch import nn

from inference.serving.lower_cache import REST, LowerCache, Use
from tests.processes import wait_until

LOAD_S = 2.0


class Files:
    """A cache of modules of 40 bytes each, and the clock that loading one moves."""

    def __init__(self, *, room: int) -> None:
        self.now = 0.0
        self.read: list[str] = []
        self.cache = LowerCache(budget_bytes=40 * room, clock=lambda: self.now)

    def get(self, name: str, use: Use | None = None) -> bool:
        """Whether it can be had."""
        return self.cache.get(name, lambda: self._load(name), use or Use(), wait=True) is not None

    def batch(self, *names: str) -> list[str]:
        """Which of them one batch gets."""
        use = Use()
        return [name for name in names if self.get(name, use)]

    def _load(self, name: str) -> nn.Module:
        self.read.append(name)
        self.now += LOAD_S
        return nn.Linear(10, 1, bias=False)


def test_what_a_batch_uses_is_not_pushed_out_by_what_else_it_wants() -> None:
    files = Files(room=1)
    assert [files.batch("local", "full") for _ in range(20)] == [["local"]] * 20
    assert files.read == ["local", "full"]  # once to see how big it is
    assert files.cache.used_bytes == 40
    assert "fit HMI_LOWER_CACHE_MB" in files.cache.last_error


def test_what_another_half_of_the_batch_uses_is_not_pushed_out() -> None:
    files = Files(room=1)
    first, second = Use(), Use()
    assert files.get("one", first)
    assert not files.get("two", second)
    del first
    files.now += 100 * LOAD_S
    assert files.get("two", second)


def test_one_more_than_fits_takes_a_tenth_of_the_time() -> None:
    files = Files(room=2)
    answered = dict.fromkeys("abc", 0)
    begun = files.now
    for turn in range(3000):
        files.now += 0.1
        for name in files.batch("abc"[turn % 3]):
            answered[name] += 1
    assert LOAD_S * len(files.read) < 1.5 * (files.now - begun) / (1 + REST) + 3 * LOAD_S
    assert min(answered.values()) > 200  # and nobody starves


def test_room_that_is_free_is_filled_at_once() -> None:
    files = Files(room=3)
    assert files.batch("a", "b", "c") == ["a", "b", "c"]
    assert files.cache.last_error == ""


def test_what_was_used_longest_ago_goes_first() -> None:
    files = Files(room=2)
    for name in "aba":
        files.batch(name)
    assert files.batch("c") == []  # how big it is, is not known before it is read
    assert files.batch("c") == ["c"]
    files.read.clear()
    assert files.batch("a", "c") == ["a", "c"]
    assert files.read == []


def test_who_does_not_wait_has_nothing_until_it_is_there_and_one_is_loaded_at_a_time() -> None:
    cache, begun, go_on = LowerCache(budget_bytes=80), Event(), Event()

    def load() -> nn.Module:
        begun.set()
        go_on.wait()
        return nn.Linear(10, 1, bias=False)

    assert cache.get("first", load, Use()) is None
    begun.wait()
    begun.clear()
    for name in ("first", "second"):
        assert cache.get(name, load, Use()) is None
    assert not begun.wait(0.2)
    go_on.set()
    for name in ("first", "second"):
        wait_until(partial(cache.get, name, load, Use()))
    assert cache.loads == 2


def test_what_failed_is_an_error_until_it_can_be_had() -> None:
    files = Files(room=1)

    def fail() -> nn.Module:
        raise OSError("no such disk")

    assert files.cache.get("a", fail, Use(), wait=True) is None
    assert "no such disk" in files.cache.last_error
    assert not files.get("a")  # and is not tried again
    files.cache.try_again()
    assert files.cache.last_error == ""
    assert files.get("a")


def test_a_refusal_is_no_error_any_more_once_there_is_room() -> None:
    files = Files(room=1)
    in_use = Use()
    files.get("a", in_use)
    for _ in range(2):
        assert not files.get("b")
    assert "fit HMI_LOWER_CACHE_MB" in files.cache.last_error
    del in_use
    assert files.get("b")
    assert files.cache.last_error == ""


def test_what_is_named_no_more_goes_with_its_errors() -> None:
    files = Files(room=1)
    for _ in range(2):
        files.batch("local", "full")
    files.cache.keep({"local"})
    assert files.cache.last_error == ""
    assert files.cache.used_bytes == 40
    files.cache.keep(set())
    assert files.cache.used_bytes == 0


def test_a_refusal_is_logged_once_and_forgotten_with_the_next_manifest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = Files(room=1)
    for _ in range(5):
        files.batch("local", "full")
    assert len(caplog.records) == 1
    files.cache.try_again()
    assert files.cache.last_error == ""
    files.batch("local", "full")
    assert "full" in files.cache.last_error

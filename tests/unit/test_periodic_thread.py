"""A thread that calls a function at an interval."""

import threading

from inference.periodic_thread import PeriodicThread

NEVER_S = 3600.0
SOON_S = 0.001


def test_it_calls_again_and_again_until_it_is_stopped() -> None:
    calls, enough = [], threading.Event()

    def act() -> None:
        calls.append(1)
        if len(calls) == 3:
            enough.set()

    thread = PeriodicThread("test", act, interval_s=SOON_S)
    thread.start()
    assert enough.wait(60)
    thread.stop()
    after = len(calls)
    assert not thread._thread.is_alive()
    assert len(calls) == after


def test_waking_it_does_not_wait_for_the_interval() -> None:
    called = threading.Event()
    thread = PeriodicThread("test", called.set, interval_s=NEVER_S)
    thread.start()
    thread.wake()
    assert called.wait(60)
    thread.stop()


def test_stopping_it_calls_only_what_comes_at_the_end() -> None:
    order: list[str] = []
    thread = PeriodicThread(
        "test", lambda: order.append("act"), interval_s=NEVER_S, at_end=lambda: order.append("end")
    )
    thread.start()
    thread.stop()
    assert order == ["end"]


def test_it_ends_by_itself_once_the_function_returns_false() -> None:
    ended = threading.Event()
    thread = PeriodicThread("test", lambda: False, interval_s=SOON_S, at_end=ended.set)
    thread.start()
    assert ended.wait(60)
    thread.stop()


def test_one_that_was_never_started_can_be_stopped() -> None:
    PeriodicThread("test", lambda: None, interval_s=SOON_S).stop()

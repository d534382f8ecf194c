"""How many streams may be open."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from pytest_django import Settings

from frontend.live import Places


class Stream:
    """Something that is read, or is not."""


def test_no_two_get_the_last_place(settings: Settings) -> None:
    settings.HMI_LIVE_STREAMS = 7
    places, start = Places(), Barrier(32)

    def take(_: int) -> bool:
        start.wait()
        return places.take()

    with ThreadPoolExecutor(32) as pool:
        assert sum(pool.map(take, range(32))) == 7


def test_a_place_is_free_again_when_nobody_has_the_stream_any_more(settings: Settings) -> None:
    settings.HMI_LIVE_STREAMS = 1
    places, stream = Places(), Stream()
    assert places.take()
    places.leave_with(stream)
    assert not places.take()
    del stream
    assert places.taken == 0
    assert places.take()


def test_where_there_are_none_nobody_gets_one(settings: Settings) -> None:
    settings.HMI_LIVE_STREAMS = 0
    assert not Places().take()

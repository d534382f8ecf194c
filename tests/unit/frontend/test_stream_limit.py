"""How many streams may be open."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from pytest_django import Settings

from frontend.job_stream import StreamLimit


class Stream:
    """Something that is read, or is not."""


def test_two_threads_never_get_the_last_stream(settings: Settings) -> None:
    settings.HMI_LIVE_STREAMS = 7
    limit, start = StreamLimit(), Barrier(32)

    def acquire(_: int) -> bool:
        start.wait()
        return limit.acquire()

    with ThreadPoolExecutor(32) as pool:
        assert sum(pool.map(acquire, range(32))) == 7


def test_a_stream_is_released_when_it_is_garbage_collected(settings: Settings) -> None:
    settings.HMI_LIVE_STREAMS = 1
    limit, stream = StreamLimit(), Stream()
    assert limit.acquire()
    limit.release_with(stream)
    assert not limit.acquire()
    del stream
    assert limit.in_use == 0
    assert limit.acquire()


def test_a_limit_of_zero_allows_no_stream(settings: Settings) -> None:
    settings.HMI_LIVE_STREAMS = 0
    assert not StreamLimit().acquire()

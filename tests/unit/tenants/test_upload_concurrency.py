"""How many may be in progress at a time, of one owner and of all."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from django.http import StreamingHttpResponse

from tenants.base.upload_concurrency import ConcurrencyLimit


def test_two_threads_never_get_the_last_slot() -> None:
    limit, start = ConcurrencyLimit(5, total=lambda: 7), Barrier(32)

    def acquire(number: int) -> bool:
        start.wait()
        return limit.acquire(number % 2)

    with ThreadPoolExecutor(32) as pool:
        assert sum(pool.map(acquire, range(32))) == 7
    assert [limit.acquire(owner) for owner in range(3)] == [False] * 3


def test_a_slot_is_given_back_once_when_its_response_is_closed_or_garbage_collected() -> None:
    limit = ConcurrencyLimit(1)
    for is_closed in (True, False):
        response = StreamingHttpResponse([])
        assert limit.acquire("acme")
        limit.release_with("acme", response)
        assert not limit.acquire("acme")
        if is_closed:
            response.close()
        del response
        assert limit.acquire("acme")
        assert not limit.acquire("acme")
        limit.release("acme")


def test_a_limit_of_zero_allows_nothing() -> None:
    assert not ConcurrencyLimit(1, total=lambda: 0).acquire("acme")

"""Tokens on the way from the thread that reads them to the event loop."""

import asyncio

from inference.openai.choices import Arrivals
from inference.queueing.messages import GeneratedToken


def test_token_after_the_loop_was_closed_is_kept() -> None:
    arrivals = Arrivals()
    assert asyncio.run(arrivals.take(0)) == []
    arrivals.put(1, GeneratedToken(index=0, token=7))
    assert [index for index, _ in asyncio.run(arrivals.take(0))] == [1]

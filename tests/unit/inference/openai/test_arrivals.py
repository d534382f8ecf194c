"""Tokens on their way to the event loop."""

import asyncio

from inference.openai.arrivals import Arrivals
from inference.queueing.messages import GeneratedToken


def test_a_token_that_comes_after_the_loop_was_closed_disturbs_nobody() -> None:
    arrivals = Arrivals()
    assert asyncio.run(arrivals.take(0)) == []
    arrivals.put(1, GeneratedToken(index=0, token=7))
    assert [index for index, _ in asyncio.run(arrivals.take(0))] == [1]

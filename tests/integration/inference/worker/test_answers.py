"""Answers on their way to those who asked."""

from typing import Any

import pytest
from msgspec.structs import replace
from redis import Redis
from redis.exceptions import ResponseError

from inference.queueing import keys
from inference.queueing.messages import InferReply
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.integration.inference.worker.desk import Desk
from tests.unit.tiny_world import TinyWorld

FULL = keys.replies("full")
LAST_ID = "18446744073709551615-18446744073709551615"
"""After this a stream takes nothing more."""


def a_few_turns(desk: Desk) -> None:
    """More than there is to do."""
    for _ in range(5):
        desk.step()


def test_an_answer_that_cannot_be_sent_keeps_no_other_back_and_is_sent_as_soon_as_it_can(
    desk: Desk, world: TinyWorld, redis: Redis
) -> None:
    redis.xadd(FULL, {"the last": "entry"}, id=LAST_ID)
    stuck = replace(request_for(world.hplms[0], "river"), reply_to=FULL)
    others = [request_for(hplm, "river") for hplm in world.hplms[1:]]
    for request in (stuck, *others):
        desk.queue.submit(request)
    with pytest.raises(ResponseError, match="exhausted"):
        a_few_turns(desk)
    assert {reply.id for reply in replies_in(redis)} == {request.id for request in others}
    assert desk.queue.depth() == len(desk.consumer.held) == 1
    redis.delete(FULL)
    a_few_turns(desk)
    entries: Any = redis.xrange(FULL)
    [reply] = [InferReply.decode(fields[keys.FIELD.encode()]) for _, fields in entries]
    assert_right(world, stuck, reply)
    assert len(replies_in(redis)) == len(others)
    assert (desk.catalogue.counters.batches, desk.consumer.held) == (1, frozenset())

"""The number format of an answer: fixed when a worker starts, and named."""

from tests.integration.conftest import redis
from tests.integration.inference.worker.asking import request_for
from tests.integration.inference.worker.conftest import built, desk, world
from tests.integration.inference.worker.desk import Desk
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld

__all__ = ["built", "desk", "redis", "world"]


def test_a_reply_names_the_number_format_which_is_the_same_alone_and_in_company(
    desk: Desk, world: TinyWorld
) -> None:
    requests = [request_for(hplm, *tiny_texts(8, seed=n)) for n, hplm in enumerate(world.hplms)]
    replies = [*desk.ask(request_for(world.hplms[0], "river")), *desk.ask(*requests)]
    assert len({reply.batch.rows for reply in replies}) > 1
    assert {reply.number_format for reply in replies} == {"float32"}

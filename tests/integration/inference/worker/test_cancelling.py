"""What the worker does with requests that were taken back, and what it says of being behind."""

import dataclasses

import pytest
from redis import Redis

from inference.engine.rows import Answered, ModelIdentity, Outcome
from inference.serving.ticket import Ticket
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.integration.inference.worker.desk import Desk
from tests.integration.inference.worker.test_serving import code_of, error_of
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld


@pytest.fixture
def one_row(redis: Redis, redis_url: str, world: TinyWorld) -> Desk:
    """A worker that computes row by row, so that much is left when something is cancelled."""
    return Desk(redis_url, world, rows=1)


def test_the_rest_of_a_cancelled_request_is_not_computed(
    one_row: Desk, redis: Redis, world: TinyWorld
) -> None:
    dropped, kept = request_for(world.hplms[0], *tiny_texts(30)), request_for(world.hplms[1], "river")
    one_row.queue.submit(dropped)
    one_row.step()
    one_row.queue.submit(kept)
    assert one_row.queue.cancel(dropped.tenant, dropped.call)
    one_row.serve()
    replies = {reply.id: reply for reply in replies_in(redis)}
    assert len(replies) == len(replies_in(redis)) == 2
    assert code_of(replies[dropped.id]) == "cancelled"
    assert_right(world, kept, replies[kept.id])
    assert one_row.catalogue.counters.rows == 2
    assert one_row.consumer.held == frozenset()


def test_nothing_is_fetched_for_a_cancelled_request(one_row: Desk, world: TinyWorld) -> None:
    first, dropped = request_for(world.hplms[0], *tiny_texts(2)), request_for(world.hplms[1], "river")
    one_row.queue.submit(first)
    one_row.queue.submit(dropped)
    one_row.step()  # computes one row of the first and begins the other: the next is due
    loads = one_row.catalogue.pool.loads
    one_row.queue.cancel(dropped.tenant, dropped.call)
    one_row.serve()
    assert one_row.catalogue.pool.loads == loads == 1


def test_a_reply_of_another_version_is_refused_and_counted(
    desk: Desk, world: TinyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a slot had been filled anew under a batch without its lease noticing."""
    settle = Ticket.settle

    def settle_wrongly(ticket: Ticket, outcome: Outcome) -> None:
        assert isinstance(outcome, Answered)
        settle(ticket, dataclasses.replace(outcome, used=ModelIdentity("globex", "other", 1, "d" * 64)))

    monkeypatch.setattr(Ticket, "settle", settle_wrongly)
    [refused] = desk.ask(request_for(world.hplms[0], "river"))
    monkeypatch.undo()
    assert code_of(refused) == "inference_failed"
    assert "another version" in error_of(refused).message
    assert desk.catalogue.counters.slot_mismatches == 1
    request = request_for(world.hplms[0], "river")
    [answered] = desk.ask(request)
    assert_right(world, request, answered)
    assert desk.catalogue.counters.slot_mismatches == 1

"""What the worker answers, against a real queue and real artifacts."""

import dataclasses
import shutil
from typing import Any

import msgspec
import numpy as np
import pytest
from redis import Redis
from redis.exceptions import ResponseError

from inference.engine.rows import Answered, ModelIdentity, Outcome, Row
from inference.queueing import keys
from inference.queueing.messages import InferReply, ReplyError, TokenSequence
from inference.serving.ticket import Ticket
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.integration.inference.worker.desk import Desk
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_world import TinyWorld


def code_of(reply: InferReply) -> str:
    return error_of(reply).code


def error_of(reply: InferReply) -> ReplyError:
    assert not reply.ok
    assert reply.outputs == ()
    assert reply.error is not None
    return reply.error


def test_requests_of_several_tenants_and_tasks_share_a_batch_and_get_their_own_answers(
    desk: Desk, world: TinyWorld
) -> None:
    requests = [request_for(hplm, *tiny_texts(3, seed=n)) for n, hplm in enumerate(world.hplms)]
    replies = desk.ask(*requests)
    for request, reply in zip(requests, replies, strict=True):
        assert_right(world, request, reply)
        assert (reply.batch.rows, reply.batch.tenants) == (18, 2)
    assert desk.catalogue.counters.batches == 1


def test_a_request_of_many_inputs_is_spread_over_steps_and_answered_once(
    redis: Redis, redis_url: str, world: TinyWorld
) -> None:
    desk = Desk(redis_url, world, rows=4)
    request = request_for(world.hplms[1], *tiny_texts(50))
    [reply] = desk.ask(request)
    assert_right(world, request, reply)
    assert desk.catalogue.counters.batches == 13
    assert reply.batch.rows == 4


NO_TOKENS = [
    TokenSequence(np.array([2, 10**6, 3], "<i4").tobytes()),
    TokenSequence(np.array([2, -1, 3], "<i4").tobytes()),
    TokenSequence(np.full(10_000, 2, "<i4").tobytes()),
    TokenSequence(np.array([2, 3], "<i4").tobytes(), types=b"\x00\x07"),
    TokenSequence(np.array([2, 3], "<i4").tobytes(), outputs_at=np.array([2], "<i4").tobytes()),
]


@pytest.mark.parametrize("sequence", NO_TOKENS)
def test_invalid_token_sequence_fails_only_its_own_request(
    desk: Desk, world: TinyWorld, sequence: TokenSequence
) -> None:
    good = request_for(world.hplms[0], "river")
    bad = msgspec.structs.replace(good, id="bad", sequences=(*good.sequences, sequence))
    refused, answered = desk.ask(bad, good)
    assert code_of(refused) == "inference_failed"
    assert "sequence 1" in error_of(refused).message
    assert_right(world, good, answered)


def test_tokens_of_another_root_are_refused(desk: Desk, redis: Redis, world: TinyWorld) -> None:
    request = request_for(world.hplms[0], "river")
    desk.step()
    # In the stream of the root that is served, but read for another.
    redis.xadd(
        keys.requests(world.root_digest),
        {keys.FIELD: msgspec.structs.replace(request, root="b" * 64).encode()},
    )
    desk.serve()
    [reply] = replies_in(redis)
    assert code_of(reply) == "model_not_ready"
    assert "another root" in error_of(reply).message


def test_an_unknown_hplm_is_refused(desk: Desk, world: TinyWorld) -> None:
    known = request_for(world.hplms[0], "river")
    requests = [
        msgspec.structs.replace(known, id="1", tenant="stranger"),
        msgspec.structs.replace(known, id="2", hplm="other"),
        msgspec.structs.replace(known, id="3", version=7),
    ]
    assert [code_of(reply) for reply in desk.ask(*requests)] == ["not_found"] * 3


def test_request_with_another_digest_is_not_answered(desk: Desk, world: TinyWorld) -> None:
    wrong = msgspec.structs.replace(request_for(world.hplms[0], "river"), digest=world.hplms[1].digest)
    [reply] = desk.ask(wrong)
    assert code_of(reply) == "inference_failed"
    assert "digest" in error_of(reply).message


def test_a_new_version_is_served_and_a_removed_one_refused_without_restart(
    desk: Desk, world: TinyWorld
) -> None:
    first, second = (request_for(hplm, "river") for hplm in world.hplms[:2])
    world.publish(revision=2, hplms=world.hplms[:1])
    served, unknown = desk.ask(first, second)
    assert_right(world, first, served)
    assert code_of(unknown) == "not_found"
    world.publish(revision=3, hplms=world.hplms[1:])
    first, second = (request_for(hplm, "river") for hplm in world.hplms[:2])
    removed, served = desk.ask(first, second)
    assert code_of(removed) == "not_found"
    assert_right(world, second, served)


def test_a_batch_of_which_nothing_was_answered_is_no_sign_of_health(desk: Desk, world: TinyWorld) -> None:
    (world.folder("hplm", world.hplms[2].digest) / "hplm.safetensors").write_bytes(b"nothing")
    [refused] = desk.ask(request_for(world.hplms[2], "the river"))
    assert code_of(refused) == "inference_failed"
    assert desk.scheduler.last_batch_at == 0.0
    [answered] = desk.ask(request_for(world.hplms[1], "the river"))
    assert answered.ok
    assert desk.scheduler.last_batch_at > 0.0


def test_an_hplm_whose_files_were_altered_fails_alone(desk: Desk, world: TinyWorld) -> None:
    path = world.folder("hplm", world.hplms[2].digest) / "hplm.safetensors"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    requests = [request_for(hplm, "the river") for hplm in world.hplms]
    for number, (request, reply) in enumerate(zip(requests, desk.ask(*requests), strict=True)):
        if number == 2:
            assert code_of(reply) == "inference_failed"
            assert "checksum" in error_of(reply).message
        else:
            assert_right(world, request, reply)


def test_late_work_is_dropped_with_a_reply(desk: Desk, world: TinyWorld) -> None:
    in_time, late = request_for(world.hplms[0], "river"), request_for(world.hplms[0], "river", seconds=5)
    desk.late = 6
    answered, dropped = desk.ask(in_time, late)
    assert_right(world, in_time, answered)
    assert code_of(dropped) == "deadline_exceeded"
    assert desk.catalogue.counters.rows == 1


def test_a_request_that_failed_while_rows_of_it_were_under_way_is_answered_once(
    redis: Redis, redis_url: str, world: TinyWorld
) -> None:
    desk = Desk(redis_url, world, rows=2)
    shutil.rmtree(world.folder("hplm", world.hplms[0].digest))
    failing, good = request_for(world.hplms[0], *tiny_texts(3)), request_for(world.hplms[1], "the river")
    desk.queue.submit(failing)
    desk.queue.submit(good)
    desk.serve()
    replies = {reply.id: reply for reply in replies_in(redis)}
    assert len(replies) == len(replies_in(redis)) == 2
    assert code_of(replies[failing.id]) == "inference_failed"
    assert_right(world, good, replies[good.id])


def test_pool_with_wrong_byte_counts_is_emptied_when_idle(desk: Desk, world: TinyWorld) -> None:
    request = request_for(world.hplms[0], "river")
    desk.ask(request)
    desk.catalogue.pool.used_bytes += 1
    desk.step()
    assert "add up" in desk.server.last_error
    again = request_for(world.hplms[0], "river")
    [reply] = desk.ask(again)
    assert_right(world, again, reply)
    assert len(desk.catalogue.pool) == 1


def test_a_model_that_is_no_longer_served_leaves_the_pool(desk: Desk, world: TinyWorld) -> None:
    desk.ask(*(request_for(hplm, "river") for hplm in world.hplms))
    assert len(desk.catalogue.pool) == len(world.hplms)
    world.publish(revision=2, hplms=world.hplms[:2])
    desk.serve()
    assert len(desk.catalogue.pool) == 2
    world.publish(revision=3)
    replies = desk.ask(*(requests := [request_for(hplm, "river") for hplm in world.hplms]))
    for request, reply in zip(requests, replies, strict=True):
        assert_right(world, request, reply)
    assert desk.catalogue.pool.loads == len(world.hplms) + 4


def test_abandoned_requests_are_served_alone(desk: Desk, world: TinyWorld, redis: Redis) -> None:
    desk.step()
    redis.xgroup_createconsumer(keys.requests(world.root_digest), keys.GROUP, "dead")
    requests = [request_for(hplm, "the river") for hplm in world.hplms]
    for request in requests[:4]:
        desk.queue.submit(request)
    redis.xreadgroup(keys.GROUP, "dead", {keys.requests(world.root_digest): ">"})
    for request in requests[4:]:
        desk.queue.submit(request)
    desk.serve()
    replies = {reply.id: reply for reply in replies_in(redis)}
    assert [replies[request.id].batch.rows for request in requests] == [1, 1, 1, 1, 2, 2]
    for request in requests:
        assert_right(world, request, replies[request.id])


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
    stuck = msgspec.structs.replace(request_for(world.hplms[0], "river"), reply_to=FULL)
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

    def settle_wrongly(ticket: Ticket, outcome: Outcome) -> list[Row]:
        assert isinstance(outcome, Answered)
        return settle(
            ticket, dataclasses.replace(outcome, used=ModelIdentity("globex", "other", 1, "d" * 64))
        )

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

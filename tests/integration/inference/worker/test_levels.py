"""At which level a text is answered, and what the worker tells of it."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import msgspec
import numpy as np
from redis import Redis

from inference.api.prepared_request import outputs_of
from inference.cascade.dispatcher import Dispatcher, Level
from inference.queueing.messages import InferRequest
from inference.text.encodings import InferInput
from inference.text.tasks import OUTPUT_KINDS
from tests.integration.inference.queueing.requests import replies_in
from tests.integration.inference.worker.asking import (
    CONTEXT,
    assert_outputs,
    assert_right,
    expected_outputs,
    inputs_for,
    of_domain,
    request_for,
    request_of,
    results_in,
)
from tests.integration.inference.worker.desk import Desk
from tests.rounding import up_to_rounding
from tests.unit.tiny_world import TinyHplm, TinyWorld

UNSEEN = "zebra quixotic zebra river zebra stone quixotic"
ALWAYS, NEVER = 1 - 1e-9, -1.0
"""Cutoffs above and below every confidence."""


def anew(requests: Sequence[InferRequest]) -> list[InferRequest]:
    """The same, asked once more."""
    return [msgspec.structs.replace(request, id=uuid4().hex) for request in requests]


def dispatcher(hplm: TinyHplm, cutoff: float) -> Dispatcher:
    """One that sends on by the cutoff alone."""
    return Dispatcher(OUTPUT_KINDS[hplm.model.task], cutoff=cutoff, slope=1e6)


def test_each_level_gives_what_the_reference_gives_at_it(desk: Desk, world: TinyWorld) -> None:
    for hplm in world.hplms:
        requests = [request_for(hplm, UNSEEN, level=level) for level in Level]
        for request, reply in zip(requests, desk.ask(*requests), strict=True):
            [sequence] = request.sequences
            assert_outputs(request, reply, [expected_outputs(world, hplm, sequence, request.level)])
            assert [output.level for output in reply.outputs] == [request.level]
            looked_up = reply.plot.trigram + reply.plot.bigram + reply.plot.unigram
            assert looked_up == (request.tokens if request.level is Level.TABLE else 0)


def test_a_text_that_goes_on_has_the_answers_of_both_levels_and_keeps_its_request(
    desk: Desk, world: TinyWorld
) -> None:
    for hplm in world.hplms:
        request = request_for(hplm, UNSEEN, "the river", dispatcher=dispatcher(hplm, ALWAYS))
        [reply] = desk.ask(request)
        table, full = (
            [expected_outputs(world, hplm, each, level) for each in request.sequences] for level in Level
        )
        assert_outputs(request, reply, full)
        for output, wanted in zip(outputs_of(reply.outputs), table, strict=True):
            assert output.level is Level.FULL
            assert output.from_tables is not None
            np.testing.assert_allclose(output.from_tables, wanted, rtol=1e-3, atol=2e-3)
        assert reply.plot.trigram + reply.plot.bigram + reply.plot.unigram == request.tokens


def test_a_text_that_went_on_late_is_late(desk: Desk, world: TinyWorld) -> None:
    hplm = world.hplms[0]
    request = request_for(hplm, UNSEEN, seconds=30.0, dispatcher=dispatcher(hplm, ALWAYS))
    desk.queue.submit(request)
    while not desk.catalogue.counters.rows:
        desk.step()
    desk.late = 60.0
    desk.serve()
    [reply] = [reply for reply in replies_in(desk.redis) if reply.id == request.id]
    assert (reply.error and reply.error.code) == "deadline_exceeded"


def test_lower_layers_without_room_in_memory_answer_all_the_same(
    redis: Redis, redis_url: str, world: TinyWorld
) -> None:
    """What an answer is must not depend on what happens to be in memory."""
    requests = [request_for(hplm, UNSEEN, level=Level.FULL) for hplm in world.hplms]
    roomy, small = (
        Desk(redis_url, world, lower_bytes=size, name=f"with{size}").ask(*anew(requests))
        for size in (1 << 30, 1000)
    )
    assert all(reply.ok for reply in small)
    for one, other in zip(roomy, small, strict=True):
        pairs = zip(outputs_of(one.outputs), outputs_of(other.outputs), strict=True)
        assert all(mine.values == up_to_rounding(its.values, within=2e-3) for mine, its in pairs)


def test_damaged_lower_layers_fail_only_the_texts_that_need_them(
    redis: Redis, redis_url: str, world: TinyWorld
) -> None:
    path = world.folder("root", world.root_digest) / "checkpoint_lower.safetensors"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    desk = Desk(redis_url, world)
    table, full = (request_for(of_domain(world), UNSEEN, level=level) for level in Level)
    answered, refused = desk.ask(table, full)
    assert_right(world, table, answered)
    assert (refused.error and refused.error.code) == "inference_failed"
    assert "damaged" in desk.catalogue.last_error


def test_a_long_context_is_read_in_windows_and_answered_from_the_best(desk: Desk, world: TinyWorld) -> None:
    hplm = next(hplm for hplm in world.hplms if hplm.model.task == "question_answering")
    context = " ".join(f"river {number} stone" for number in range(60))
    inputs = [InferInput("the doctor of the city", context), InferInput("light", "river")]
    request = request_of(hplm, inputs)
    [reply] = desk.ask(request)
    assert_right(world, request, reply)
    assert reply.batch.rows > 5
    result, _ = results_in(hplm, inputs, reply)
    assert context[result["start"] : result["end"]] == result["answer"]
    assert result["truncated"] is False


TEXT = "the zebra of the river, quixotic!"


def without_tokens(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: said for name, said in result.items() if name != "tokens"} for result in results]


def test_every_kind_of_hplm_tells_the_tokens_of_what_it_read(desk: Desk, world: TinyWorld) -> None:
    plain = [request_for(hplm, TEXT, "the river") for hplm in world.hplms]
    asking = [msgspec.structs.replace(one, id=f"{one.id}e", explain=True) for one in plain]
    for hplm, untold, told in zip(world.hplms, desk.ask(*plain), desk.ask(*asking), strict=True):
        inputs = inputs_for(hplm, TEXT, "the river")
        explained, usual = (results_in(hplm, inputs, reply) for reply in (told, untold))
        assert without_tokens(explained) == usual
        second = "context" if hplm.model.task == "question_answering" else "text_pair"
        first = "question" if second == "context" else "text"
        read = {first: TEXT, second: CONTEXT} if hplm.model.pairs else {first: TEXT}
        tokens = explained[0]["tokens"]
        for name, text in read.items():
            shown = [text[token["start"] : token["end"]] for token in tokens if token["of"] == name]
            assert "".join(shown) == text.replace(" ", "")
        assert len(tokens) == sum(token["of"] in read for token in tokens)

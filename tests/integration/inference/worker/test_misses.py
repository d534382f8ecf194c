"""What the worker does about fragments that the tables lack, and what it tells of them."""

import json
import struct
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from redis import Redis

from inference.hplm.miss_policy import MissHandling, MissPolicy
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.misses import missed_fragments
from inference.serving import lower_cache
from inference.text.encodings import WINDOWS, InferInput
from inference.text.tasks import TASKS
from tests.integration.inference.worker.asking import (
    assert_right,
    inputs_for,
    request_for,
    request_of,
    results_in,
)
from tests.integration.inference.worker.desk import Desk
from tests.processes import wait_until
from tests.unit.tiny_world import TinyHplm, TinyWorld

UNSEEN = "zebra quixotic zebra river zebra stone quixotic"


def of_domain(world: TinyWorld) -> TinyHplm:
    return next(hplm for hplm in world.hplms if len(hplm.plots) == 2)


def names_of_counts(redis: Redis) -> list[str]:
    found: Any = redis.keys("hmi:misses:*:*")
    return [key.decode() for key in found]


def anew(requests: Sequence[InferRequest]) -> list[InferRequest]:
    """The same, asked once more."""
    return [msgspec.structs.replace(request, id=uuid4().hex) for request in requests]


def is_computed(desk: Desk, hplm: TinyHplm) -> bool:
    """Whether the lower layers of the model are there by now: asking for them has them loaded."""
    [reply] = desk.ask(request_for(hplm, UNSEEN, miss_policy="compute"))
    return reply.plot.computed > 0


def told(reply: InferReply) -> tuple[bool, bool, bool]:
    """Whether shorter fragments stood in, fragments were computed, texts were computed whole."""
    plot = reply.plot
    return plot.bigram + plot.unigram > 0, plot.computed > 0, plot.whole_rows > 0


def test_a_request_may_choose_what_is_done(desk: Desk, world: TinyWorld) -> None:
    hplm = world.hplms[0]
    requests = [request_for(hplm, UNSEEN, miss_policy=policy) for policy in ("fallback", "compute", "auto")]
    fallback, compute, auto = desk.ask(*requests)
    assert told(fallback) == (True, False, False)
    assert told(compute) == (False, True, False)
    assert compute.plot.trigram + compute.plot.computed == requests[1].tokens
    assert told(auto)[0] is False
    assert auto.plot.computed > 0 or auto.plot.whole_rows == 1
    assert fallback.outputs != compute.outputs
    assert fallback.batch.rows == 3


@pytest.mark.parametrize("policy", [*MissPolicy])
def test_without_a_choice_the_deployment_s_policy_holds(
    redis: Redis, redis_url: str, world: TinyWorld, policy: MissPolicy
) -> None:
    desk = Desk(redis_url, world, misses=MissHandling(policy, tolerance=0.0))
    request = msgspec.structs.replace(request_for(world.hplms[0], UNSEEN), miss_policy=None)
    [reply] = desk.ask(request)
    expected = {
        MissPolicy.FALLBACK: (True, False, False),
        MissPolicy.COMPUTE: (False, True, False),
        MissPolicy.AUTO: (False, False, True),
    }
    assert told(reply) == expected[policy]


def test_a_policy_that_does_not_exist_fails_its_request_alone(desk: Desk, world: TinyWorld) -> None:
    good = request_for(world.hplms[0], "river")
    refused, answered = desk.ask(request_for(world.hplms[0], "river", miss_policy="guess"), good)
    assert not refused.ok
    assert_right(world, good, answered)


def test_each_domain_s_fragments_go_through_its_own_lower_layers(desk: Desk, world: TinyWorld) -> None:
    requests = [request_for(hplm, UNSEEN, miss_policy="compute") for hplm in world.hplms]
    desk.ask(*requests)
    wait_until(lambda: all(reply.plot.computed > 0 for reply in desk.ask(*anew(requests))))
    assert (
        desk.catalogue.lower_layers.lowers.loads == 3
    )  # the root's, the domain's, and those that see whole texts


def test_lower_layers_that_do_not_fit_or_are_damaged_leave_the_tables_answering(
    redis: Redis, redis_url: str, world: TinyWorld
) -> None:
    request = request_for(of_domain(world), UNSEEN, miss_policy="compute")
    small = Desk(redis_url, world, lower_bytes=1000)
    [reply] = small.ask(request)
    assert told(reply) == (True, False, False)
    assert "fit" in small.catalogue.last_error
    path = world.folder("lower", of_domain(world).lower) / "lower.safetensors"
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)
    [reply] = Desk(redis_url, world, name="other").ask(msgspec.structs.replace(request, id="again"))
    assert told(reply) == (False, False, True)


def bytes_of_all(redis_url: str, world: TinyWorld) -> int:
    """How big the lower layers of the root and both domains are together."""
    desk = Desk(redis_url, world)
    requests = [request_for(hplm, UNSEEN, miss_policy="compute") for hplm in world.hplms[:2]]
    wait_until(lambda: desk.ask(*anew(requests)) and desk.catalogue.lower_layers.lowers.loads == 3)
    return desk.catalogue.lower_layers.lowers.used_bytes


def test_lower_layers_come_and_go_within_their_budget(
    redis: Redis, redis_url: str, world: TinyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lower_cache, "REST", 0.0)
    room = bytes_of_all(redis_url, world) * 3 // 4
    desk = Desk(redis_url, world, lower_bytes=room, name="other")
    for number in (0, 1, 0, 1):
        wait_until(partial(is_computed, desk, world.hplms[number]))
        assert desk.catalogue.lower_layers.lowers.used_bytes <= room
    assert desk.catalogue.lower_layers.lowers.loads > 3


def test_a_batch_that_wants_more_than_fits_loads_nothing_again_and_says_so(
    redis: Redis, redis_url: str, world: TinyWorld
) -> None:
    """Room for one of three: of two domains one is computed, the other answered from its tables."""
    room = bytes_of_all(redis_url, world) // 2
    desk = Desk(redis_url, world, lower_bytes=room, misses=MissHandling(MissPolicy.FALLBACK), name="other")
    held = desk.catalogue.lower_layers.lowers
    requests = [request_for(hplm, UNSEEN, miss_policy="compute") for hplm in world.hplms[:2]]
    wait_until(lambda: desk.ask(*anew(requests)) and held.loads == 3)  # once each, to see how big they are
    for turn in range(5):
        replies = desk.ask(*anew(requests))
        assert replies[0].batch.rows == 2
        assert sorted(told(reply) for reply in replies) == [(False, True, False), (True, False, False)]
        assert held.used_bytes <= room
        assert held.loads <= 3, f"turn {turn}"
    assert "fit HMI_LOWER_CACHE_MB" in desk.catalogue.last_error


def test_what_the_tables_lack_is_counted_for_the_nearest_table(
    desk: Desk, world: TinyWorld, redis: Redis
) -> None:
    hplm = of_domain(world)
    for policy in ("fallback", "compute", "auto"):
        desk.ask(request_for(hplm, UNSEEN, miss_policy=policy))
    desk.counter.flush()
    found = missed_fragments(redis, tables=[hplm.plots[0]], least_count=3, least_tenants=1)
    [once] = desk.ask(request_for(hplm, UNSEEN))
    assert sum(fragment.count for fragment in found) == 3 * (once.plot.bigram + once.plot.unigram)
    zebra = world.root.tokenizer.encode("zebra").ids[1]
    assert any(zebra in fragment.ids for fragment in found)
    assert missed_fragments(redis, tables=[hplm.plots[1]], least_count=1, least_tenants=1) == []


def test_nothing_is_counted_where_no_domain_can_grow(desk: Desk, world: TinyWorld, redis: Redis) -> None:
    [hplm] = [hplm for hplm in world.hplms if len(hplm.plots) == 1][:1]
    desk.ask(request_for(hplm, UNSEEN))
    desk.counter.flush()
    assert names_of_counts(redis) == []


def test_nothing_is_counted_for_a_tenant_that_does_not_share(
    desk: Desk, world: TinyWorld, redis: Redis
) -> None:
    path = world.publish(revision=2)
    manifest = json.loads(path.read_text())
    for entry in manifest["hplms"].values():
        entry["shares_counts"] = entry["tenant"] != "acme"
    manifest["revision"] = 3
    replaced = path.with_suffix(".new")
    replaced.write_text(json.dumps(manifest))
    replaced.replace(path)
    desk.ask(*[request_for(hplm, UNSEEN) for hplm in world.hplms])
    desk.counter.flush()
    assert {name.rsplit(":", 1)[1] for name in names_of_counts(redis)} == {"globex"}


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


def test_a_context_without_end_is_read_up_to_a_limit(desk: Desk, world: TinyWorld) -> None:
    hplm = next(hplm for hplm in world.hplms if hplm.model.task == "question_answering")
    endless = InferInput("light", "river stone " * 20_000)
    [reply] = desk.ask(request_of(hplm, [endless]))
    [result] = results_in(hplm, [endless], reply)
    assert result["truncated"] is True
    assert desk.catalogue.counters.rows == WINDOWS


def test_every_task_is_answered_in_its_own_words(desk: Desk, world: TinyWorld) -> None:
    words = {
        "classification": {"label", "scores"},
        "multilabel": {"labels", "scores"},
        "regression": {"value"},
        "tagging": {"spans"},
        "question_answering": {"answer", "start", "end", "score"},
    }
    assert {hplm.model.task for hplm in world.hplms} == set(TASKS)
    for hplm in world.hplms:
        [reply] = desk.ask(request_for(hplm, "the river"))
        [result] = results_in(hplm, inputs_for(hplm, "the river"), reply)
        assert set(result) == words[hplm.model.task] | {"truncated"}


def test_fragments_are_counted_as_ids(desk: Desk, world: TinyWorld, redis: Redis) -> None:
    """And nothing else of a text is kept."""
    desk.ask(request_for(of_domain(world), "quixotic"))
    desk.counter.flush()
    [name] = names_of_counts(redis)
    members: Any = redis.zrange(name, 0, -1)
    assert members
    for member in members:
        assert len(struct.unpack(">3i", member)) == 3

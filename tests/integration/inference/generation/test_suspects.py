"""A completion that kills its worker is computed alone from then on: it takes no other with it."""

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest
from msgspec.structs import replace
from redis import Redis

from inference.engine.rows import ModelIdentity
from inference.generation.engine import GenerationEngine
from inference.generation.limits import GenerationLimits
from inference.generation.requests import GenerationRequest
from inference.generation.step import Outcome, Step
from inference.queueing import keys
from inference.queueing.consumer import MAX_DELIVERIES, STOPPED_WORKERS, Entry, RequestConsumer
from inference.queueing.messages import InferReply, InferRequest, TokenSequence
from inference.queueing.token_stream import tokens_sent
from inference.queueing.transport import Address, RequestQueue
from inference.serving.decoder_scheduler import SUSPECT_TOKENS, DecoderScheduler
from inference.serving.loop import ServingLoop
from inference.serving.loop_timing import LoopTiming
from inference.serving.outbox import Outbox
from tests.integration.inference.queueing.requests import ROOT, a_completion_request, crash
from tests.unit.inference.generation.worlds import HashRunner, SlotPool, completion_of

LIMITS = GenerationLimits(context=128, vocabulary=50, blocks=256, block_size=4, sequences=8, step_tokens=64)
TIMING = LoopTiming(idle_wait_s=0.002, claim_every_s=0.0, drop_every_s=0.0)
TOKENS = 40
INNOCENT = [f"r{number}" for number in range(6)]


def catalogue_of(engine: GenerationEngine) -> Any:
    """A catalogue of one root."""
    root = SimpleNamespace(engine=engine, number_format="float32")
    return SimpleNamespace(
        keep_up=lambda: None,
        roots={ROOT: root},
        working=lambda: [root],
        root_of=lambda *_: root,
        is_behind=False,
    )


class Killed(BaseException):
    """The process ends at once."""


class KillingRunner(HashRunner):
    """Ends the process in a step with the poison, from a token of it on."""

    at = 0

    def run(self, step: Step) -> list[Outcome]:
        for chunk in step.chunks:
            if chunk.request_id == "poison" and len(chunk.known_tokens) - chunk.prompt_tokens >= self.at:
                raise Killed
        return super().run(step)


class Workers:
    """Workers, one after the other, each of which serves until the poison ends it."""

    def __init__(self, redis: Redis, poison_at: int) -> None:
        self.redis, self.poison_at = redis, poison_at
        self.deaths = 0
        self.loop = self._next()

    def step(self) -> bool:
        try:
            return self.loop.step()
        except Killed:
            crash(self.redis, f"w{self.deaths}")
            self.deaths += 1
            self.loop = self._next()
            return True

    def _next(self) -> ServingLoop:
        runner, adapters = KillingRunner(LIMITS), SlotPool()
        runner.at = self.poison_at
        adapters.loading.append(DIGEST)
        adapters.finish_all()
        catalogue = catalogue_of(GenerationEngine(LIMITS, runner, adapters, lambda: 0.0))
        name = f"w{self.deaths}"
        self.redis.set(keys.worker(name), b"{}")
        consumer = RequestConsumer(self.redis, name)
        outbox = Outbox(consumer)
        scheduler = DecoderScheduler(catalogue, outbox, consumer, self.redis, timing=TIMING)
        return ServingLoop(consumer, scheduler, outbox, timing=TIMING)


DIGEST = "d" * 64


def asked(name: str) -> InferRequest:
    prompt = np.frombuffer(name.encode(), np.uint8).astype("<i4") % LIMITS.vocabulary
    request = a_completion_request(name, max_tokens=TOKENS)
    return replace(request, sequences=(TokenSequence(prompt.tobytes()),))


def expected(request: InferRequest) -> tuple[int, ...]:
    assert request.generate is not None
    model = ModelIdentity(request.tenant, request.hplm, request.version, request.digest)
    prompt = tuple(np.frombuffer(request.sequences[0].ids, "<i4").tolist())
    return completion_of(
        GenerationRequest(id=request.id, model=model, prompt=prompt, sampling=request.generate)
    )


def told(redis: Redis, name: str) -> tuple[tuple[int, ...], InferReply]:
    """The tokens of an ended completion, and its reply."""
    entries = cast("list[Any]", redis.xrange(keys.completion(name)))
    _, last = entries[-1]
    return tokens_sent(redis, name), InferReply.decode(last[keys.FIELD.encode()])


@pytest.mark.parametrize("poison_at", [0, 5, SUSPECT_TOKENS + 5])
def test_a_completion_that_kills_workers_ends_alone_and_the_others_go_on(
    redis: Redis, poison_at: int
) -> None:
    queue, workers = RequestQueue(redis, capacity=100), Workers(redis, poison_at)
    first, second = INNOCENT[:3], INNOCENT[3:]
    for name in (*first, "poison"):
        queue.submit(asked(name))
    while workers.deaths < 1:
        workers.step()
    for name in second:  # they come to the workers that die of the poison alone
        queue.submit(asked(name))
    while queue.depth():
        workers.step()
        listed: Any = redis.xpending_range(keys.requests(ROOT), keys.GROUP, "-", "+", 100)
        for pending in listed:
            [(_, fields)] = cast(
                "list[Any]", redis.xrange(keys.requests(ROOT), pending["message_id"], count=1)
            )
            name = InferRequest.decode(fields[keys.FIELD.encode()]).id
            assert name == "poison" or pending["times_delivered"] <= 2
    assert workers.deaths == MAX_DELIVERIES
    for name in INNOCENT:
        tokens, reply = told(redis, name)
        assert (tokens, reply.ok) == (expected(asked(name)), True)
    tokens, reply = told(redis, "poison")
    assert tokens == expected(asked("poison"))[:poison_at]
    assert reply.error is not None
    assert reply.error.message == STOPPED_WORKERS
    assert not redis.exists(keys.SUSPECTS)


def test_completions_that_end_meanwhile_do_not_shorten_how_long_a_suspect_is_computed_alone(
    redis: Redis,
) -> None:
    adapters = SlotPool()
    adapters.loading.append(DIGEST)
    adapters.finish_all()
    engine, consumer = GenerationEngine(LIMITS, HashRunner(LIMITS), adapters, lambda: 0.0), Mock()
    scheduler = DecoderScheduler(catalogue_of(engine), Outbox(consumer), consumer, redis, timing=TIMING)
    entries = [
        Entry(Address(ROOT, name), asked(name), deliveries=1) for name in [*INNOCENT, *"abc", "poison"]
    ]
    for entry in entries:
        scheduler.add(entry, alone=entry.request.id == "poison")
    scheduler.drop({entry.address for entry in entries[:-1]})
    assert [scheduler.step_alone() for _ in range(SUSPECT_TOKENS)] == [True] * (SUSPECT_TOKENS - 1) + [False]

"""Generative models in a real worker: tokens come as they are computed, and end once."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from inference.generation.requests import FinishReason, SamplingParams, TokenEvent
from inference.queueing.messages import InferRequest, ModelRef, TokenSequence
from inference.queueing.replies import InferClient
from inference.queueing.token_stream import TokenFeed
from tests.integration.inference.queueing.requests import depth
from tests.processes import InferenceWorker, starting_workers, wait_until
from tests.unit.inference.generation.decoder_world import generated
from tests.unit.tiny_decoder import EOS
from tests.unit.tiny_generative import MODELS, GenerativeWorld, generative_world
from tests.unit.tiny_world import TinyWorld

PROMPT = tuple(b"the name of the river is")
GREEDY = SamplingParams(max_tokens=20, temperature=0.0, stop_tokens=frozenset({EOS}))
SECONDS = 240.0
Shared = tuple[GenerativeWorld, InferenceWorker]


@pytest.fixture
def client(redis_url: str) -> Iterator[InferClient]:
    client = InferClient(redis_url, capacity=64)
    yield client
    client.close()


@pytest.fixture(scope="module")
def shared(redis_url: str, built: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Generative models beside the encoder models, and a worker: for tests that leave both as they are."""
    home = tmp_path_factory.mktemp("shared")
    world = replace(built, artifact_root=shutil.copytree(built.artifact_root, home / "artifacts"))
    writers = generative_world(world.artifact_root)
    world.publish(revision=2, **writers.manifest_parts())
    with starting_workers(redis_url, world.artifact_root, HMI_HOME=str(home)) as start:
        yield writers, start()


def asked(
    client: InferClient,
    world: GenerativeWorld,
    model: ModelRef,
    prompt: tuple[int, ...] = PROMPT,
    sampling: SamplingParams = GREEDY,
    seconds: float = SECONDS,
) -> InferRequest:
    sequence = TokenSequence(np.asarray(prompt, "<i4").tobytes())
    return client.request(model, (sequence,), root=world.root, seconds=seconds, generate=sampling)


def events_of(feed: TokenFeed, seconds: float = SECONDS) -> list[TokenEvent]:
    """All of them, to the last."""
    until, events = time.monotonic() + seconds, list[TokenEvent]()
    while not feed.ended:
        assert time.monotonic() < until, f"{len(events)} tokens came, and no end"
        events += feed.next(1.0)
    return events


def tokens_of(events: list[TokenEvent]) -> tuple[int, ...]:
    return tuple(event.token for event in events if event.token is not None)


def test_a_worker_tells_of_both_kinds_of_roots(client: InferClient, shared: Shared) -> None:
    """Of none that were asked for something: this test is the first."""
    writers, worker = shared
    worker.wait_until_ready()
    (decoder,) = (status := worker.told()).decoders
    assert {"tiny", "writer"} <= set(status.roots)
    assert (decoder.name, decoder.running, decoder.waiting, decoder.generated_tokens) == ("writer", 0, 0, 0)
    with client.completing(asked(client, writers, writers.models[0])) as feed:
        events = events_of(feed)
    wait_until(lambda: worker.told().decoders[0].generated_tokens == len(tokens_of(events)), worker)
    (decoder,) = worker.told().decoders
    assert (decoder.running, decoder.used_blocks) == (0, 0)
    assert 0 < decoder.cached_blocks < decoder.blocks


def test_each_tenants_model_gives_its_own_tokens(client: InferClient, shared: Shared) -> None:
    writers, worker = shared
    worker.wait_until_ready()
    for model, (_, _, number) in zip(writers.models, MODELS, strict=True):
        with client.completing(asked(client, writers, model)) as feed:
            events = events_of(feed)
        assert tokens_of(events) == generated("llama", str(number), PROMPT, GREEDY.max_tokens)
        assert events[-1].finish_reason in (FinishReason.LENGTH, FinishReason.STOP)
    assert depth(client.redis) == 0


def test_what_cannot_be_generated_is_refused_with_the_reason(client: InferClient, shared: Shared) -> None:
    writers, worker = shared
    worker.wait_until_ready()
    model = writers.models[0]
    long = SamplingParams(max_tokens=10_000)
    stranger = ModelRef("acme", "nobody", 1, model.digest)
    for request, code in (
        (asked(client, writers, model, sampling=long), "invalid_field"),
        (asked(client, writers, model, prompt=(9_999,)), "invalid_field"),
        (asked(client, writers, stranger), "not_found"),
    ):
        with client.completing(request) as feed:
            (last,) = events_of(feed)
        assert (last.finish_reason, last.error and last.error.code) == (FinishReason.ERROR, code)


def test_a_caller_that_leaves_frees_what_it_had(client: InferClient, shared: Shared) -> None:
    writers, worker = shared
    worker.wait_until_ready()
    endless = SamplingParams(max_tokens=100, temperature=0.0)
    with client.completing(asked(client, writers, writers.models[0], sampling=endless)) as feed:
        feed.next(SECONDS)
    wait_until(lambda: depth(client.redis) == 0, worker)
    with client.completing(asked(client, writers, writers.models[1])) as feed:
        assert tokens_of(events_of(feed))


def test_the_background_begins_when_no_other_completion_is_under_way(
    client: InferClient, shared: Shared, redis_url: str
) -> None:
    writers, worker = shared
    worker.wait_until_ready()
    live = asked(client, writers, writers.models[0], sampling=SamplingParams(max_tokens=90, temperature=0.0))
    background = InferClient(redis_url, capacity=64, background=True)
    later = asked(background, writers, writers.models[1])
    with client.completing(live) as feed:
        feed.next(SECONDS)
        with background.completing(later) as other:
            events_of(feed)
            assert tokens_of(events_of(other)) == generated("llama", str(MODELS[1][2]), PROMPT, 20)
    background.close()
    assert feed.reply is not None
    assert other.reply is not None
    ended = live.enqueued_at + feed.reply.timings_ms.total / 1000
    assert later.enqueued_at + other.reply.timings_ms.queue / 1000 >= ended

"""Generative models in a real worker: tokens come as they are computed, and end once."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from inference.decoder.lora import LORA_FILE
from inference.generation.requests import FinishReason, SamplingParams, TokenEvent
from inference.queueing.messages import InferRequest, ModelRef, TokenSequence
from inference.queueing.replies import InferClient
from inference.queueing.token_stream import TokenFeed
from tests.integration.inference.queueing.requests import depth
from tests.processes import InferenceWorker, wait_until
from tests.unit.inference.generation.decoder_world import generated
from tests.unit.tiny_decoder import EOS
from tests.unit.tiny_generative import MODELS, GenerativeWorld, generative_world
from tests.unit.tiny_world import TinyWorld

PROMPT = tuple(b"the name of the river is")
GREEDY = SamplingParams(max_tokens=20, temperature=0.0, stop_tokens=frozenset({EOS}))
SECONDS = 240.0


@pytest.fixture
def writers(world: TinyWorld) -> GenerativeWorld:
    """Published beside the encoder models."""
    built = generative_world(world.artifact_root)
    world.publish(revision=2, **built.manifest_parts())
    return built


@pytest.fixture
def client(redis_url: str) -> Iterator[InferClient]:
    client = InferClient(redis_url, capacity=64)
    yield client
    client.close()


@pytest.fixture
def worker(writers: GenerativeWorld, start_worker: Callable[..., InferenceWorker]) -> InferenceWorker:
    """A real one, ready."""
    started = start_worker()
    started.wait_until_ready()
    return started


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


def test_each_tenants_model_gives_its_own_tokens(
    client: InferClient, worker: InferenceWorker, writers: GenerativeWorld
) -> None:
    for model, (_, _, number) in zip(writers.models, MODELS, strict=True):
        with client.completing(asked(client, writers, model)) as feed:
            events = events_of(feed)
        assert tokens_of(events) == generated("llama", str(number), PROMPT, GREEDY.max_tokens)
        assert events[-1].finish_reason in (FinishReason.LENGTH, FinishReason.STOP)
    assert depth(client.redis) == 0


def test_what_cannot_be_generated_is_refused_with_the_reason(
    client: InferClient, worker: InferenceWorker, writers: GenerativeWorld
) -> None:
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


def test_a_caller_that_leaves_frees_what_it_had(
    client: InferClient, worker: InferenceWorker, writers: GenerativeWorld
) -> None:
    endless = SamplingParams(max_tokens=100, temperature=0.0)
    with client.completing(asked(client, writers, writers.models[0], sampling=endless)) as feed:
        feed.next(SECONDS)
    wait_until(lambda: depth(client.redis) == 0, worker)
    with client.completing(asked(client, writers, writers.models[1])) as feed:
        assert tokens_of(events_of(feed))


def test_another_worker_goes_on_where_a_killed_one_stopped(
    client: InferClient,
    worker: InferenceWorker,
    writers: GenerativeWorld,
    start_worker: Callable[..., InferenceWorker],
) -> None:
    request = asked(client, writers, writers.models[0], sampling=replace(GREEDY, max_tokens=90))
    with client.completing(request) as feed:
        events = feed.next(SECONDS)
        worker.kill()
        start_worker().wait_until_ready()
        events += events_of(feed)
    assert tokens_of(events) == generated("llama", str(MODELS[0][2]), PROMPT, 90)
    assert [event.index for event in events if event.token is not None] == [*range(len(tokens_of(events)))]
    assert events[-1].finish_reason is not None
    assert events[-1].error is None


def half(content: bytes) -> bytes:
    """The file as far as it was written when the disk was full."""
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    """The file with other bits in its last byte, which is of a number."""
    return content[:-1] + bytes([content[-1] ^ 0xFF])


def is_corrupt(last: TokenEvent, message: str) -> bool:
    """Whether an event that ends a completion calls the artifact corrupt in these words."""
    assert last.finish_reason is FinishReason.ERROR
    assert last.error is not None
    assert last.error.code == "corrupt_artifact"
    return message in last.error.message


@pytest.mark.slow
def test_a_damaged_lora_ends_its_own_tenants_requests_and_no_others(
    client: InferClient, worker: InferenceWorker, writers: GenerativeWorld, world: TinyWorld
) -> None:
    ours, _, theirs = writers.models
    file = writers.folder("hplm", ours.digest) / LORA_FILE
    whole = file.read_bytes()

    def ended_beside_theirs() -> TokenEvent:
        """The one event of our request, which the worker takes in together with one of the other tenant."""
        long = replace(GREEDY, max_tokens=90)
        worker.pause()
        with (
            client.completing(asked(client, writers, theirs, sampling=long)) as other,
            client.completing(asked(client, writers, ours)) as feed,
        ):
            worker.resume()
            (last,) = events_of(feed)
            assert tokens_of(events_of(other)) == generated("llama", str(MODELS[2][2]), PROMPT, 90)
        return last

    def publish(revision: int) -> None:
        world.publish(revision=revision, **writers.manifest_parts())
        wait_until(lambda: worker.told().revision == revision, worker)

    file.write_bytes(half(whole))
    assert is_corrupt(ended_beside_theirs(), "its checksum is not the published one")
    file.write_bytes(flipped(whole))
    assert is_corrupt(ended_beside_theirs(), "its checksum is not the published one")
    file.write_bytes(half(whole))
    publish(3)  # with the checksum of the damaged file
    # The loop that generates has a catalogue of its own, which may follow later than what the worker tells.
    wait_until(lambda: is_corrupt(ended_beside_theirs(), "cannot be read"), worker)
    file.write_bytes(whole)
    publish(4)

    def answers() -> bool:
        with client.completing(asked(client, writers, ours)) as feed:
            right = generated("llama", str(MODELS[0][2]), PROMPT, GREEDY.max_tokens)
            return tokens_of(events_of(feed)) == right

    wait_until(answers, worker)


def test_the_background_begins_when_no_other_completion_is_under_way(
    client: InferClient, worker: InferenceWorker, writers: GenerativeWorld, redis_url: str
) -> None:
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


def test_a_worker_tells_of_both_kinds_of_roots(
    client: InferClient, worker: InferenceWorker, writers: GenerativeWorld
) -> None:
    (decoder,) = (status := worker.told()).decoders
    assert {"tiny", "writer"} <= set(status.roots)
    assert (decoder.name, decoder.running, decoder.waiting, decoder.generated_tokens) == ("writer", 0, 0, 0)
    with client.completing(asked(client, writers, writers.models[0])) as feed:
        events = events_of(feed)
    wait_until(lambda: worker.told().decoders[0].generated_tokens == len(tokens_of(events)), worker)
    (decoder,) = worker.told().decoders
    assert (decoder.running, decoder.used_blocks) == (0, 0)
    assert 0 < decoder.cached_blocks < decoder.blocks

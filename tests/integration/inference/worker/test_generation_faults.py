"""A real worker of generative models that is killed, or finds a damaged file."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from inference.decoder.lora import LORA_FILE
from inference.generation.requests import FinishReason, TokenEvent
from inference.queueing.replies import InferClient
from tests.integration.inference.worker.test_generation import (
    GREEDY,
    PROMPT,
    SECONDS,
    asked,
    client,
    events_of,
    tokens_of,
)
from tests.processes import InferenceWorker, wait_until
from tests.unit.inference.generation.decoder_world import generated
from tests.unit.tiny_generative import MODELS, GenerativeWorld, generative_world
from tests.unit.tiny_world import TinyWorld

__all__ = ["client"]


@pytest.fixture
def writers(world: TinyWorld) -> GenerativeWorld:
    """Published beside the encoder models."""
    built = generative_world(world.artifact_root)
    world.publish(revision=2, **built.manifest_parts())
    return built


@pytest.fixture
def worker(writers: GenerativeWorld, start_worker: Callable[..., InferenceWorker]) -> InferenceWorker:
    """A real one, ready, of the test's own."""
    started = start_worker()
    started.wait_until_ready()
    return started


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

"""One tenant's adapter is of no use: that tenant is told so, and the others in the batch notice nothing."""

import dataclasses
from collections.abc import Callable, Iterable

import msgspec
import pytest
from redis import Redis

from inference.hplm.hplm import WEIGHTS_FILE
from inference.queueing.messages import InferReply
from inference.queueing.transport import RequestQueue
from tests.integration.inference.queueing.requests import depth, replies_in
from tests.integration.inference.worker.asking import assert_right, request_for
from tests.integration.inference.worker.more_hplms import spoil_with_infinity, spoil_with_nan, spoilt_hplm
from tests.processes import InferenceWorker, wait_until
from tests.unit.tiny_world import TinyHplm, TinyWorld

pytestmark = pytest.mark.slow

Start = Callable[..., InferenceWorker]
ONE_BATCH = {"OMP_NUM_THREADS": "1"}
"""What waits is not shared out over batches side by side."""


@dataclasses.dataclass(frozen=True)
class Mixed:
    """What became of requests for all of a world's models, sent at once: by the model's digest."""

    world: TinyWorld
    replies: dict[str, InferReply]

    def assert_right(self, hplms: Iterable[TinyHplm]) -> None:
        """These were answered as the reference says."""
        for hplm in hplms:
            reply = self.replies[hplm.digest]
            assert_right(
                self.world, msgspec.structs.replace(request_for(hplm, "the river"), id=reply.id), reply
            )

    def assert_others_right(self, bad: TinyHplm) -> None:
        """All but this one were answered as the reference says, in one batch."""
        good = [hplm for hplm in self.world.hplms if hplm is not bad]
        self.assert_right(good)
        assert min(self.replies[hplm.digest].batch.rows for hplm in good) >= len(good)

    def error_of(self, hplm: TinyHplm) -> str:
        """The code that its request was refused with."""
        reply = self.replies[hplm.digest]
        assert not reply.ok
        assert reply.outputs == ()
        assert reply.error is not None
        return reply.error.code


def ask_all(redis: Redis, world: TinyWorld) -> None:
    """One request for each, before anybody takes them: they travel together."""
    queue = RequestQueue(redis, capacity=100)
    for hplm in world.hplms:
        queue.submit(request_for(hplm, "the river"))


def answers(redis: Redis, world: TinyWorld) -> Mixed:
    """The last answer of each."""
    wait_until(lambda: depth(redis) == 0)
    return Mixed(world, {reply.model.digest: reply for reply in replies_in(redis)})


def test_an_altered_adapter_fails_alone_until_it_is_as_it_was(
    redis: Redis, world: TinyWorld, start_worker: Start
) -> None:
    bad = world.hplms[2]
    path = world.folder("hplm", bad.digest) / WEIGHTS_FILE
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    ask_all(redis, world)
    worker = start_worker(**ONE_BATCH).wait_until_ready()
    mixed = answers(redis, world)
    assert mixed.error_of(bad) == "inference_failed"
    mixed.assert_others_right(bad)

    path.write_bytes(content)
    world.publish(revision=2)
    ask_all(redis, world)
    answers(redis, world).assert_right(world.hplms)
    status = worker.wait_until_ready().status()
    assert status is not None
    assert status.slot_mismatches == 0


@pytest.mark.parametrize("spoil", [spoil_with_nan, spoil_with_infinity])
def test_an_adapter_whose_numbers_are_none_fails_alone(
    redis: Redis, world: TinyWorld, start_worker: Start, spoil: Callable[..., None]
) -> None:
    bad = spoilt_hplm(world, spoil)
    world = dataclasses.replace(world, hplms=(*world.hplms[:3], bad, *world.hplms[3:]))
    world.publish(revision=2)
    for _ in range(2):
        ask_all(redis, world)
    worker = start_worker(**ONE_BATCH).wait_until_ready()
    mixed = answers(redis, world)
    assert len(replies_in(redis)) == 2 * len(world.hplms)
    assert mixed.error_of(bad) == "inference_failed"
    mixed.assert_others_right(bad)
    status = worker.wait_until_ready().status()
    assert status is not None
    assert status.slot_mismatches == 0

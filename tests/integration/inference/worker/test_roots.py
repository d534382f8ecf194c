"""Workers that serve different roots share one queue: each request is answered where its root is served."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from redis import Redis

from inference.decoder.root import WEIGHTS_FILE as DECODER_WEIGHTS_FILE
from inference.hplm.root import UPPER_FILE
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.transport import RequestQueue
from inference.serving.environment import WorkerSettings
from tests.integration.inference.queueing.requests import depth, replies_in
from tests.integration.inference.worker.asking import LONG_S, assert_right, request_for
from tests.integration.inference.worker.test_serving import code_of
from tests.processes import InferenceWorker, wait_until
from tests.unit.tiny import tiny_texts
from tests.unit.tiny_generative import generative_world
from tests.unit.tiny_world import TinyHplm, TinyWorld, tiny_world

Start = Callable[..., InferenceWorker]


@pytest.fixture
def other(world: TinyWorld) -> TinyWorld:
    """Two models of another tenant under another root, published beside those of ``world``."""
    path = world.artifact_root / "manifest.json"
    there = json.loads(path.read_text())
    made = tiny_world(world.artifact_root, hplms=2, layers=5)
    other = dataclasses.replace(made, hplms=tuple(map(of_another_tenant, made.hplms)))
    added = json.loads(other.publish().read_text())
    parts = {part: there[part] | added[part] for part in ("roots", "lowers", "hplms")}
    path.write_text(json.dumps(there | parts))
    return other


def of_another_tenant(hplm: TinyHplm) -> TinyHplm:
    return dataclasses.replace(hplm, tenant="initech")


def submit(redis: Redis, world: TinyWorld, count: int, *, seconds: float = LONG_S) -> list[InferRequest]:
    queue, hplms = RequestQueue(redis, capacity=10_000), world.hplms
    texts = tiny_texts(count)
    requests = [request_for(hplms[n % len(hplms)], texts[n], seconds=seconds) for n in range(count)]
    for request in requests:
        queue.submit(request)
    return requests


def replies_to(redis: Redis, requests: Sequence[InferRequest]) -> list[InferReply]:
    """The one reply to each, once all are there."""
    wanted = [request.id for request in requests]
    wait_until(lambda: set(wanted) <= {reply.id for reply in replies_in(redis)})
    found = [reply for reply in replies_in(redis) if reply.id in set(wanted)]
    assert len(found) == len(wanted)
    by_id = {reply.id: reply for reply in found}
    return [by_id[one] for one in wanted]


def assert_answered(redis: Redis, world: TinyWorld, requests: Sequence[InferRequest]) -> None:
    for request, reply in zip(requests, replies_to(redis, requests), strict=True):
        assert_right(world, request, reply)


def rows_of(worker: InferenceWorker) -> int:
    status = worker.status()
    return status.rows if status else 0


def test_a_worker_is_ready_with_the_first_of_its_roots_and_names_those_it_lacks(
    world: TinyWorld, start_worker: Start
) -> None:
    writers = generative_world(world.artifact_root)
    world.publish(revision=2, **writers.manifest_parts())
    encoder = HeldAway(world.folder("root", world.root_digest) / UPPER_FILE)
    decoder = HeldAway(writers.folder("root", writers.root) / DECODER_WEIGHTS_FILE)
    worker = start_worker()
    wait_until(lambda: worker.told().missing_roots == ("tiny", "writer"), worker)
    wait_until(lambda: "is loading" in worker.output(), worker)
    assert (worker.told().state, worker.told().roots) == ("loading", ())
    decoder.put_back()
    status = worker.wait_until_ready().told()
    assert (status.roots, status.missing_roots) == (("writer",), ("tiny",))
    assert "cannot be read" in status.last_error
    encoder.put_back()
    wait_until(lambda: worker.told().missing_roots == (), worker)
    assert worker.told().roots == ("tiny", "writer")
    assert worker.told().last_error == ""


class HeldAway:
    """A file that is not there until it is `put_back`."""

    def __init__(self, path: Path) -> None:
        self._path, self._away = path, path.with_suffix(".away")
        path.parent.chmod(0o755)
        path.rename(self._away)

    def put_back(self) -> None:
        self._away.rename(self._path)


def test_of_two_workers_each_answers_for_its_root_and_what_one_held_when_it_was_killed_waits_for_the_next(
    redis: Redis, world: TinyWorld, other: TinyWorld, start_worker: Start
) -> None:
    first = start_worker(HMI_ROOTS=world.root_digest)
    second = start_worker(HMI_ROOTS=f"another, {other.root_digest}")
    for worker in (first, second):
        worker.wait_until_ready()
    ours, theirs = submit(redis, world, 30), submit(redis, other, 10)
    assert_answered(redis, world, ours)
    assert_answered(redis, other, theirs)
    wait_until(lambda: (rows_of(first), rows_of(second)) == (30, 10))
    assert first.told().root_digests == (world.root_digest,)
    assert second.told().root_digests == (other.root_digest,)

    # The second is the only one of its root: what it held waits for the next one, or for its deadline.
    second.pause()
    hurried, patient = submit(redis, other, 5, seconds=1.5), submit(redis, other, 5)
    second.kill()
    assert [code_of(reply) for reply in replies_to(redis, hurried)] == ["deadline_exceeded"] * 5
    assert_answered(redis, world, submit(redis, world, 5))
    assert depth(redis) == 5
    start_worker(HMI_ROOTS=other.root_digest).wait_until_ready()
    assert_answered(redis, other, patient)
    assert RequestQueue(redis, capacity=1).outstanding() == {}


def test_a_worker_that_cannot_load_a_root_leaves_its_requests_to_one_that_can(
    redis: Redis, world: TinyWorld, other: TinyWorld, start_worker: Start
) -> None:
    copy = world.artifact_root.parent / "copy"
    shutil.copytree(world.artifact_root, copy)
    (copy / "root" / other.root_digest[:2] / other.root_digest / UPPER_FILE).write_bytes(b"damaged")
    lame = start_worker(HMI_ARTIFACT_ROOT=str(copy)).wait_until_ready()
    assert lame.told().root_digests == (world.root_digest,)
    waiting = submit(redis, other, 5)
    assert_answered(redis, world, submit(redis, world, 20))
    start_worker(HMI_ROOTS=other.root_digest).wait_until_ready()
    assert_answered(redis, other, [*waiting, *submit(redis, other, 20)])
    wait_until(lambda: rows_of(lame) == 20)


def test_all_roots_are_served_unless_some_are_named() -> None:
    env = {"REDIS_URL": "unix:///x", "HMI_ARTIFACT_ROOT": "/x"}
    assert WorkerSettings.from_env(env).roots == frozenset()
    assert WorkerSettings.from_env(env | {"HMI_ROOTS": " mini, bert,"}).roots == {"mini", "bert"}

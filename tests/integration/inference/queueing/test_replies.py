"""Waiting for answers in one process, against a real server."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest
from msgspec import msgpack
from redis import Redis

from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.messages import InferReply, ModelRef
from inference.queueing.replies import InferClient, NoReply
from tests.integration.inference.queueing.requests import (
    ROOT,
    a_reply,
    a_request,
    a_worker,
    answered,
    said_in,
    sequence_of,
    text_of,
)
from tests.processes import wait_until
from tests.services import OwnValkey

MODEL = ModelRef("acme", "mood", 1, "d" * 64)


@pytest.fixture
def client(redis: Redis, redis_url: str) -> Iterator[InferClient]:
    client = InferClient(redis_url, capacity=100)
    yield client
    client.close()


def echo(url: str, stop: threading.Event) -> None:
    """A worker that answers each request with its own first text."""
    with connect(url) as redis:
        worker = a_worker(redis, "echo")
        while not stop.is_set():
            for entry in worker.read(8, 20):
                answered(worker, entry, a_reply(entry.request, text_of(entry.request.sequences[0])))


@pytest.fixture
def echoing(redis: Redis, redis_url: str) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=echo, args=(redis_url, stop))
    thread.start()
    yield
    stop.set()
    thread.join()


def test_a_reply_that_cannot_be_read_is_a_failure_at_once(client: InferClient, redis: Redis) -> None:
    request = client.request(MODEL, (sequence_of("hello"),), root=ROOT, seconds=10)
    replies: SimpleQueue[InferReply] = SimpleQueue()
    with client.expecting(request, replies.put):
        redis.xadd(request.reply_to, {keys.FIELD: msgpack.encode({"v": 1, "id": request.id})})
        reply = replies.get(timeout=30)
    assert reply.error is not None
    assert reply.error.code == "inference_failed"


def test_many_threads_each_get_their_own_answer(client: InferClient, echoing: None) -> None:
    def ask(number: int) -> str:
        reply = client.ask(MODEL, (sequence_of(f"text {number}"),), root=ROOT, seconds=10)
        return said_in(reply)

    with ThreadPoolExecutor(16) as pool:
        labels = list(pool.map(ask, range(200)))
    assert labels == [f"text {number}" for number in range(200)]


def test_a_reply_that_was_read_does_not_stay_until_others_come(
    client: InferClient, echoing: None, redis: Redis
) -> None:
    client.ask(MODEL, (sequence_of("hello"),), root=ROOT, seconds=10)
    [stream] = redis.keys(keys.REPLIES_PREFIX + "*")
    wait_until(lambda: redis.xlen(stream) == 0)
    assert said_in(client.ask(MODEL, (sequence_of("again"),), root=ROOT, seconds=10)) == "again"


def test_no_worker_means_no_reply(client: InferClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.queueing.replies.GRACE_S", 0.1)
    started = time.monotonic()
    with pytest.raises(NoReply):
        client.ask(MODEL, (sequence_of("hello"),), root=ROOT, seconds=0.1)
    assert time.monotonic() - started < 10  # seconds, of which a busy machine may take most


def test_a_late_reply_and_nonsense_are_dropped_and_the_reader_goes_on(
    client: InferClient, echoing: None, redis: Redis
) -> None:
    client.ask(MODEL, (sequence_of("first"),), root=ROOT, seconds=10)
    [stream] = redis.keys(keys.REPLIES_PREFIX + "*")
    redis.xadd(stream, {keys.FIELD: a_reply(a_request("long gone")).encode()})
    redis.xadd(stream, {keys.FIELD: b"nonsense"})
    redis.xadd(stream, {"other": b""})
    assert said_in(client.ask(MODEL, (sequence_of("second"),), root=ROOT, seconds=10)) == "second"


def test_an_error_of_who_expects_a_reply_keeps_no_other_from_arriving(
    client: InferClient, echoing: None
) -> None:
    def fail(_: InferReply) -> None:
        raise RuntimeError("Event loop is closed")

    request = client.request(MODEL, (sequence_of("first"),), root=ROOT, seconds=10)
    client.expect(request, fail)
    client.queue.submit(request)
    assert said_in(client.ask(MODEL, (sequence_of("second"),), root=ROOT, seconds=2)) == "second"


def test_closing_removes_the_stream(redis: Redis, redis_url: str, echoing: None) -> None:
    client = InferClient(redis_url, capacity=10)
    client.ask(MODEL, (sequence_of("hello"),), root=ROOT, seconds=10)
    client.close()
    assert redis.keys(keys.REPLIES_PREFIX + "*") == []


def test_waiting_goes_on_after_the_server_restarts(own_server: OwnValkey) -> None:
    client = InferClient(own_server.url, capacity=10)
    worker = a_worker(connect(own_server.url), "w1")
    answers: list[InferReply] = []
    asking = threading.Thread(
        target=lambda: answers.append(client.ask(MODEL, (sequence_of("hello"),), root=ROOT, seconds=20))
    )
    asking.start()
    entry = read_one(worker)
    own_server.kill()
    own_server.start()
    answered(worker, entry, a_reply(entry.request))
    asking.join(20)
    assert [reply.id for reply in answers] == [entry.request.id]
    client.close()


def read_one(worker: RequestConsumer) -> Entry:
    while True:
        for entry in worker.read(1, 100):
            return entry

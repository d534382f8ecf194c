"""Tokens on their way from workers to callers, against a real server."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from redis import Redis
from redis.exceptions import ResponseError

from inference.generation.requests import FinishReason, SamplingParams, TokenEvent
from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.messages import InferReply, InferRequest, ModelRef
from inference.queueing.replies import InferClient
from inference.queueing.token_stream import (
    CompletionLost,
    CompletionReader,
    Continuation,
    TokenFeed,
    tokens_sent,
)
from inference.queueing.transport import RequestQueue
from tests.integration.inference.queueing.requests import (
    ROOT,
    a_completion_request,
    a_request,
    a_worker,
    answered,
    appended,
    crash,
    depth,
    end_of,
    sequence_of,
    tokens_from,
)
from tests.services import OwnValkey

MODEL = ModelRef("acme", "mood", 1, "d" * 64)
DONE = FinishReason.STOP


@pytest.fixture
def queue(redis: Redis) -> RequestQueue:
    return RequestQueue(redis, capacity=10)


@pytest.fixture
def client(redis: Redis, redis_url: str) -> Iterator[InferClient]:
    client = InferClient(redis_url, capacity=100)
    yield client
    client.close()


def taken(queue: RequestQueue, worker: RequestConsumer, request_id: str = "r1") -> Entry:
    """The entry of a new request, as the worker reads it."""
    queue.submit(a_completion_request(request_id))
    [entry] = worker.read(1, 0)
    return entry


def summary(events: list[TokenEvent]) -> list[tuple[int, int | None, FinishReason | None]]:
    return [(event.index, event.token, event.finish_reason) for event in events]


def events_of(feed: TokenFeed, count: int) -> list[TokenEvent]:
    """So many events, as they come."""
    events: list[TokenEvent] = []
    while len(events) < count:
        events += feed.next(5)
    return events


def asked(client: InferClient) -> InferRequest:
    how: Any = {"root": ROOT, "seconds": 30, "generate": SamplingParams(max_tokens=9)}
    return client.request(MODEL, (sequence_of("prompt"),), **how)


def test_what_is_known_of_a_token_travels_with_it(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    entry = taken(queue, worker)
    [token] = tokens_from(0, 7)
    appended(
        worker, entry, [type(token)(index=0, token=7, logprob=-0.5, alternatives=((7, -0.5), (8, -1.5)))]
    )
    [event] = CompletionReader(redis, "r1").read()
    assert event == TokenEvent(
        request_id="r1", index=0, token=7, logprob=-0.5, alternatives=((7, -0.5), (8, -1.5))
    )


def test_a_reader_goes_on_behind_the_last_token_it_saw(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    entry = taken(queue, worker)
    appended(worker, entry, tokens_from(0, 5, 6, 7, 8), end_of(entry.request, 4))
    assert summary(CompletionReader(redis, "r1", after=1).read()) == [
        (2, 7, None),
        (3, 8, None),
        (4, None, DONE),
    ]


def test_a_gap_is_an_error_and_nothing_is_written(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    entry = taken(queue, worker)
    with pytest.raises(ResponseError, match="GAP token 1 does not follow the 0"):
        appended(worker, entry, tokens_from(1, 6), end_of(entry.request, 2))
    assert tokens_sent(redis, "r1") == ()
    assert depth(redis) == 1
    assert worker.held == {entry.address}


def test_one_that_cannot_be_written_holds_up_no_other(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    one, other = taken(queue, worker, "r1"), taken(queue, worker, "r2")
    appended(worker, one, tokens_from(0, 5))
    redis.delete(keys.completion("r1"))  # as the server does that has no memory left
    continuations = [
        Continuation(one.address, one.request, tokens_from(1, 6)),
        Continuation(other.address, other.request, tokens_from(0, 5)),
    ]
    failed, written = worker.append_all(continuations)
    assert isinstance(failed, ResponseError)
    assert written is True
    assert worker.held == {one.address, other.address}


def test_a_failure_ends_a_completion_with_its_error(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    entry = taken(queue, worker)
    failure = InferReply.failure("r1", entry.request.model, "out_of_memory", "too large")
    appended(worker, entry, tokens_from(0, 5), failure)
    *_, event = CompletionReader(redis, "r1").read()
    assert event.finish_reason is FinishReason.ERROR
    assert event.error is not None
    assert (event.index, event.error.code, event.error.message) == (1, "out_of_memory", "too large")


def test_a_completion_never_ends_early_without_a_word(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    entry = taken(queue, worker)
    appended(worker, entry, tokens_from(0, 5, 6, 7))
    redis.xdel(keys.completion("r1"), "2-0")
    reader = CompletionReader(redis, "r1")
    with pytest.raises(CompletionLost):
        reader.read()
    with pytest.raises(CompletionLost):
        CompletionReader(redis, "r1").accept(end_of(entry.request, 3))
    assert not reader.ended


def test_a_completion_can_be_read_for_a_minute_after_its_end(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    entry = taken(queue, worker)
    assert redis.ttl(keys.completion("r1")) > 60
    appended(worker, entry, (), end_of(entry.request, 0))
    assert 0 < redis.ttl(keys.completion("r1")) <= 60


def test_a_caller_gets_each_token_as_it_comes(client: InferClient, redis: Redis) -> None:
    worker, request = a_worker(redis, "w1"), asked(client)
    with client.completing(request) as feed:
        [entry] = worker.read(1, 1000)
        appended(worker, entry, tokens_from(0, 5))
        assert summary(events_of(feed, 1)) == [(0, 5, None)]
        assert feed.next(0.01) == []
        appended(worker, entry, tokens_from(1, 6), end_of(request, 2))
        assert summary(events_of(feed, 2)) == [(1, 6, None), (2, None, DONE)]
    assert feed.reply is not None
    assert feed.reply.model == MODEL


def test_copies_that_the_server_dropped_are_read_from_the_completion(
    client: InferClient, redis: Redis
) -> None:
    worker, request = a_worker(redis, "w1"), asked(client)
    feed = TokenFeed(CompletionReader(redis, request.id))
    client.queue.submit(request)
    [entry] = worker.read(1, 1000)
    appended(worker, entry, tokens_from(0, 5, 6))
    redis.delete(request.reply_to)
    first, second, third = tokens_from(1, 6, 7, 8)
    appended(worker, entry, [second, third])
    feed.put(second)
    assert summary(feed.next(0)) == [(0, 5, None), (1, 6, None), (2, 7, None), (3, 8, None)]
    for late in (first, third):
        feed.put(late)
        assert feed.next(0) == []
    last = tokens_from(4, 9, 10)
    appended(worker, entry, last, end_of(request, 6))
    feed.put(last[1])
    assert summary(feed.next(0)) == [(4, 9, None), (5, 10, None), (6, None, DONE)]
    assert feed.reply == end_of(request, 6)
    feed.put(end_of(request, 6))
    assert feed.next(0) == []


def test_a_caller_that_leaves_cancels_its_request(client: InferClient, redis: Redis) -> None:
    worker, request = a_worker(redis, "w1"), asked(client)
    with client.completing(request):
        [entry] = worker.read(1, 1000)
    assert worker.answered() == {entry.address}
    [event] = CompletionReader(redis, request.id).read()
    assert event.finish_reason is FinishReason.CANCELLED


def test_tokens_push_no_reply_out(client: InferClient, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.queueing.transport.REPLIES_KEPT", 1)
    worker = a_worker(redis, "w1")
    queue = RequestQueue(redis, capacity=10)
    queue.submit(a_request("r1"))
    [entry] = worker.read(1, 0)
    answered(worker, entry, InferReply.failure("r1", MODEL, "inference_failed", "no"))
    completion = taken(queue, worker, "r2")
    appended(worker, completion, tokens_from(0, *range(500)))
    assert redis.xlen(keys.replies("test")) == 1
    assert redis.xlen(completion.request.reply_to) < 500  # of these the server drops copies
    assert len(tokens_sent(redis, "r2")) == 500


def test_tokens_for_a_lost_stream_do_not_count(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    entry = taken(queue, worker)
    redis.flushall()
    assert not appended(worker, entry, tokens_from(0, 5))
    assert worker.held == frozenset()


def test_a_completion_goes_on_where_nobody_gets_copies(redis: Redis, queue: RequestQueue) -> None:
    worker = a_worker(redis, "w1")
    entry = taken(queue, worker)
    redis.set(entry.request.reply_to, "no stream")
    assert appended(worker, entry, tokens_from(0, 5), end_of(entry.request, 1))
    assert tokens_sent(redis, "r1") == (5,)


def test_a_restarted_server_has_all_tokens(own_server: OwnValkey) -> None:
    redis = connect(own_server.url)
    worker = a_worker(redis, "w1")
    entry = taken(RequestQueue(redis, capacity=10), worker)
    appended(worker, entry, tokens_from(0, 5, 6))
    own_server.kill()
    own_server.start()
    assert appended(worker, entry, tokens_from(1, 6, 7), end_of(entry.request, 3))
    assert summary(CompletionReader(redis, "r1").read()) == [
        (0, 5, None),
        (1, 6, None),
        (2, 7, None),
        (3, None, DONE),
    ]


def test_a_server_out_of_memory_takes_all_of_a_step_or_nothing(own_server: OwnValkey) -> None:
    redis = connect(own_server.url)
    worker = a_worker(redis, "w1")
    entry = taken(RequestQueue(redis, capacity=10), worker)
    redis.config_set("maxmemory", 1)
    with pytest.raises(ResponseError, match="memory"):
        appended(worker, entry, tokens_from(0, 5, 6), end_of(entry.request, 2))
    redis.config_set("maxmemory", 0)
    assert tokens_sent(redis, "r1") == ()
    assert appended(worker, entry, tokens_from(0, 5, 6), end_of(entry.request, 2))
    assert tokens_sent(redis, "r1") == (5, 6)


class CompletionMachine(RuleBasedStateMachine):
    """Workers read, continue, end, stall and claim requests for completions, and callers cancel them. Token i
    of the worker n is 1000 n + i: who wrote what can be seen."""

    redis: Redis

    def __init__(self) -> None:
        super().__init__()
        self.redis.flushall()
        self.queue = RequestQueue(self.redis, capacity=100)
        self.numbers = itertools.count(1)
        self.requests: list[str] = []
        self.working: list[tuple[int, RequestConsumer, Entry, int]] = []
        """The number of each worker, what it works on, and how many tokens it knows of."""
        self.seen: dict[str, list[int]] = {}

    @precondition(lambda self: len(self.requests) < 4)
    @rule()
    def submit(self) -> None:
        name = f"r{next(self.numbers)}"
        self.queue.submit(a_completion_request(name))
        self.requests.append(name)

    @rule()
    def start_worker_that_takes_a_request(self) -> None:
        number = next(self.numbers)
        worker = a_worker(self.redis, f"w{number}")
        for entry in worker.claim_abandoned() or worker.read(1, 0):
            self.working.append((number, worker, entry, len(tokens_sent(self.redis, entry.request.id))))

    @precondition(lambda self: self.working)
    @rule(data=st.data(), count=st.integers(0, 3), ends=st.booleans(), twice=st.booleans())
    def go_on(self, data: st.DataObject, count: int, ends: bool, twice: bool) -> None:
        at = data.draw(st.integers(0, len(self.working) - 1))
        number, worker, entry, known = self.working[at]
        tokens = tokens_from(known, *(1000 * number + known + each for each in range(count)))
        reply = end_of(entry.request, known + count) if ends else None
        holds = appended(worker, entry, tokens, reply)
        if twice:
            assert appended(worker, entry, tokens, reply) is (holds and not ends)
        self.working[at] = (number, worker, entry, known + count)
        if ends or not holds:
            del self.working[at]

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def lose_heartbeat(self, data: st.DataObject) -> None:
        _, worker, _, _ = data.draw(st.sampled_from(self.working))
        crash(self.redis, worker.name)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.queue.cancel("acme", data.draw(st.sampled_from(self.requests)))

    @invariant()
    def nothing_that_was_seen_changes_and_nobody_writes_behind_their_successor(self) -> None:
        for name in self.requests:
            events = CompletionReader(self.redis, name).read()
            ends = [event for event in events if event.finish_reason is not None]
            tokens = [event.token for event in events if event.token is not None]
            assert len(ends) <= 1
            assert ends == events[len(tokens) :]
            assert [event.index for event in events] == list(range(len(events)))
            assert [token % 1000 for token in tokens] == list(range(len(tokens)))
            workers = [token // 1000 for token in tokens]
            assert workers == sorted(workers)
            assert tokens[: len(self.seen.get(name, []))] == self.seen.get(name, [])
            self.seen[name] = tokens

    def teardown(self) -> None:
        """One last worker ends whatever is left; the copies tell the same as the completions."""
        for _, worker, _, _ in self.working:
            crash(self.redis, worker.name)
        last = a_worker(self.redis, "last")
        while self.queue.depth():
            for entry in last.read(4, 0) + last.claim_abandoned(4):
                known = len(tokens_sent(self.redis, entry.request.id))
                appended(last, entry, tokens_from(known, 10**6 + known), end_of(entry.request, known + 1))
        self.nothing_that_was_seen_changes_and_nobody_writes_behind_their_successor()
        for name in self.requests:
            assert CompletionReader(self.redis, name).read()[-1].finish_reason is not None


@pytest.fixture
def machine(redis_url: str) -> type[CompletionMachine]:
    return type("Machine", (CompletionMachine,), {"redis": connect(redis_url)})


def test_no_token_is_lost_or_repeated_whoever_dies(machine: type[CompletionMachine]) -> None:
    machine.TestCase.settings = settings(
        max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
    )
    machine.TestCase("runTest").debug()

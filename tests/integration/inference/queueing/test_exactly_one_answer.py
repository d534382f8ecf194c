"""In whatever order workers of two roots read, answer, crash and claim, and callers cancel: every accepted
request gets exactly one answer."""

import itertools
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from redis import Redis

from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.messages import InferRequest
from inference.queueing.transport import SHARE_OF_FREE, QueueFull, RequestQueue
from tests.integration.inference.queueing.requests import (
    OTHER_ROOT,
    ROOT,
    a_reply,
    a_request,
    a_worker,
    answered,
    crash,
    replies_in,
)

CAPACITY = 5
ROOTS = [ROOT, OTHER_ROOT]


class QueueMachine(RuleBasedStateMachine):
    """Workers come and go while requests for two roots arrive, and change the roots that they serve.
    ``alive`` holds each living worker with what it works on; ``stalled`` workers lost their heartbeat but may
    still wake up and answer."""

    redis: Redis

    def __init__(self) -> None:
        super().__init__()
        self.redis.flushall()
        self.queue = RequestQueue(self.redis, capacity=CAPACITY)
        self.numbers = itertools.count()
        self.accepted: dict[str, InferRequest] = {}
        self.alive: list[tuple[RequestConsumer, list[Entry]]] = []
        self.stalled: list[tuple[RequestConsumer, list[Entry]]] = []

    @rule(tenant=st.sampled_from(["acme", "globex", "initech"]), root=st.sampled_from(ROOTS))
    def submit(self, tenant: str, root: str) -> None:
        request = a_request(f"r{next(self.numbers)}", tenant, root=root)
        try:
            self.queue.submit(request)
            self.accepted[request.id] = request
        except QueueFull:
            self.refused_rightly(tenant)

    def refused_rightly(self, tenant: str) -> None:
        own = sum(counts.get(tenant, 0) for counts in self.queue.outstanding().values())
        free = CAPACITY - self.queue.depth()
        assert free < 1 or own >= max(1, SHARE_OF_FREE * (free - 1))

    @precondition(lambda self: self.accepted)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        self.queue.submit(self.accepted[data.draw(st.sampled_from(sorted(self.accepted)))])

    @precondition(lambda self: self.accepted)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        request = self.accepted[data.draw(st.sampled_from(sorted(self.accepted)))]
        waits = request.id not in {reply.id for reply in replies_in(self.redis)}
        assert self.queue.cancel(request.tenant, request.call) is waits

    @rule(roots=st.sets(st.sampled_from(ROOTS)))
    def start_worker(self, roots: set[str]) -> None:
        worker = a_worker(self.redis, f"w{next(self.numbers)}")
        worker.follow(roots)
        self.alive.append((worker, []))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), roots=st.sets(st.sampled_from(ROOTS)))
    def serve_other_roots(self, data: st.DataObject, roots: set[str]) -> None:
        worker, _ = data.draw(st.sampled_from(self.alive))
        worker.follow(roots)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def answer_what_is_late_elsewhere(self, data: st.DataObject) -> None:
        worker, _ = data.draw(st.sampled_from(self.alive))
        for entry in worker.overdue_elsewhere(time.time() + 60):
            answered(worker, entry, a_reply(entry.request, "late"))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), count=st.integers(1, 4))
    def read(self, data: st.DataObject, count: int) -> None:
        worker, entries = data.draw(st.sampled_from(self.alive))
        entries.extend(worker.read(count, 0))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), count=st.integers(1, 4))
    def claim(self, data: st.DataObject, count: int) -> None:
        worker, entries = data.draw(st.sampled_from(self.alive))
        entries.extend(worker.claim_abandoned(count))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def lose_a_delivery(self, data: st.DataObject) -> None:
        worker, _ = data.draw(st.sampled_from(self.alive))
        for root in worker.roots:
            self.redis.xreadgroup(keys.GROUP, worker.name, {keys.requests(root): ">"}, count=1)

    @precondition(lambda self: any(entries for _, entries in self.alive + self.stalled))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        busy = [pair for pair in self.alive + self.stalled if pair[1]]
        worker, entries = data.draw(st.sampled_from(busy))
        entry = entries.pop(data.draw(st.integers(0, len(entries) - 1)))
        answered(worker, entry, a_reply(entry.request))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), wakes_up=st.booleans())
    def lose_heartbeat(self, data: st.DataObject, wakes_up: bool) -> None:
        pair = self.alive.pop(data.draw(st.integers(0, len(self.alive) - 1)))
        crash(self.redis, pair[0].name)
        if wakes_up:
            self.stalled.append(pair)

    @invariant()
    def workers_learn_of_whatever_was_answered_elsewhere(self) -> None:
        answered = {reply.id for reply in replies_in(self.redis)}
        for worker, entries in self.alive:
            learnt = worker.answered()
            assert {entry.request.id for entry in entries if entry.address in learnt} == {
                entry.request.id for entry in entries if entry.request.id in answered
            }

    @invariant()
    def never_two_answers_nor_an_answer_to_nothing(self) -> None:
        answers = Counter(reply.id for reply in replies_in(self.redis))
        assert set(answers.values()) <= {1}
        assert set(answers) <= self.accepted.keys()
        assert self.queue.depth() == len(self.accepted) - len(answers) <= CAPACITY
        counted: Any = self.redis.hvals(keys.OUTSTANDING)
        assert sum(map(int, counted)) == self.queue.depth()

    def teardown(self) -> None:
        """One last healthy worker finishes whatever is left."""
        for worker, _ in self.alive:
            crash(self.redis, worker.name)
        last = a_worker(self.redis, "last", *ROOTS)
        while self.queue.depth():
            for entry in last.read(10, 0) + last.claim_abandoned(10):
                answered(last, entry, a_reply(entry.request))
        assert {reply.id for reply in replies_in(self.redis)} == self.accepted.keys()
        self.never_two_answers_nor_an_answer_to_nothing()


@pytest.fixture
def machine(redis_url: str) -> type[QueueMachine]:
    return type("Machine", (QueueMachine,), {"redis": connect(redis_url)})


def test_every_accepted_request_gets_exactly_one_answer(machine: type[QueueMachine]) -> None:
    machine.TestCase.settings = settings(
        max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
    )
    machine.TestCase("runTest").debug()

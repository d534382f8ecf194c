"""Whatever requests, workers, reports and cancellations do, in whatever order: a request is in one place, the
first to arrive is served first, no worker exceeds its limits, and no token is lost."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inference.generation.limits import GenerationLimits
from inference.generation.placement import Add, Command, Placement
from inference.generation.working_set import Attempt, WorkerLimits

LIMITS = WorkerLimits(
    GenerationLimits(context=16, vocabulary=8, blocks=8, block_size=2, sequences=3), growth_blocks=1
)
MOST_TOKENS = LIMITS.blocks * LIMITS.block_size
ROUNDS = 2000


def token(request_id: str, number: int) -> int:
    """What every worker generates as a request's token of that number."""
    return 1000 * int(request_id) + number


def answer(request_id: str, count: int) -> list[int]:
    return [token(request_id, number) for number in range(count)]


@dataclass
class Report:
    """What a worker has computed and placement has not heard yet."""

    tokens: Mapping[Attempt, Sequence[int]]
    finished: Sequence[Attempt]


@dataclass
class Worker:
    """Generates for the attempts it was given; its reports arrive later, in their order."""

    generated: dict[Attempt, int] = field(default_factory=dict)
    reports: deque[Report] = field(default_factory=deque)


class Cluster(RuleBasedStateMachine):
    """``lengths``: the prompt and the answer of each request that has not ended, in the order of arrival;
    ``heard``: its tokens that placement took; ``late``: reports of dead workers, which arrive when a worker
    of the same id is there again."""

    def __init__(self) -> None:
        super().__init__()
        self.placement = Placement(LIMITS)
        self.workers: dict[int, Worker] = {}
        self.late: dict[int, deque[Report]] = {}
        self.lengths: dict[str, tuple[int, int]] = {}
        self.heard: dict[str, list[int]] = {}
        self.arrived = 0

    @rule(worker=st.integers(0, 3))
    def start_worker(self, worker: int) -> None:
        if worker not in self.workers:
            self.workers[worker] = Worker(reports=self.late.pop(worker, deque()))
            self.obey_in_order(self.placement.add_worker(worker))

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), restarted=st.booleans())
    def lose_worker(self, data: st.DataObject, restarted: bool) -> None:
        worker = data.draw(st.sampled_from(sorted(self.workers)))
        lost = self.workers.pop(worker)
        self.obey_in_order(self.placement.remove_worker(worker))
        for report in lost.reports:
            assert self.placement.record(worker, report.tokens, report.finished) == []
        self.late[worker] = lost.reports
        if restarted:
            self.start_worker(worker)

    @rule(prompt=st.integers(1, 6), length=st.integers(1, MOST_TOKENS - 6))
    def arrive(self, prompt: int, length: int) -> None:
        request_id = str(self.arrived)
        self.arrived += 1
        self.lengths[request_id] = prompt, length
        self.heard[request_id] = []
        self.obey_in_order(self.placement.add(request_id, range(prompt), length))

    @precondition(lambda self: self.lengths)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.lengths)))
        self.forget(request_id)
        self.obey_in_order(self.placement.cancel(request_id))
        assert not any(request_id in names(worker.generated) for worker in self.workers.values())

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), steps=st.integers(1, 3))
    def compute(self, data: st.DataObject, steps: int) -> None:
        self.step(self.workers[data.draw(st.sampled_from(sorted(self.workers)))], steps)

    @precondition(lambda self: any(worker.reports for worker in self.workers.values()))
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        reporting = sorted(worker for worker, one in self.workers.items() if one.reports)
        self.deliver(data.draw(st.sampled_from(reporting)))

    @rule()
    def consolidate(self) -> None:
        had, idle = {worker: set(one.generated) for worker, one in self.workers.items()}, self.idle()
        waited = bool(self.placement.waiting)
        self.obey(self.placement.consolidate())
        if not waited:
            assert idle <= self.idle()
            for worker, one in self.workers.items():
                # Nobody moved away from a worker that was not emptied.
                assert not one.generated or had[worker] <= set(one.generated)
        spared = self.idle() - set(self.placement.scaling().release)
        assert set(self.placement.scaling().release) <= self.idle()
        assert len(spared) <= 1

    @invariant()
    def every_request_is_on_one_worker_or_in_the_queue(self) -> None:
        self.placement.check_integrity()
        placed = [name for worker in self.workers.values() for name in names(worker.generated)]
        queued = [request.request_id for request in self.placement.waiting]
        assert len(placed + queued) == len(set(placed + queued))
        # Those whose last token is under way have ended on their worker already.
        under_way = {
            attempt.request_id
            for worker in self.workers.values()
            for report in worker.reports
            for attempt in report.finished
        }
        assert set(placed + queued) <= self.lengths.keys() <= set(placed + queued) | under_way

    @invariant()
    def placement_knows_who_is_where(self) -> None:
        for working in self.placement.workers:
            assert set(self.workers[working.worker].generated) <= set(working.requests)

    @invariant()
    def no_worker_exceeds_its_limits(self) -> None:
        for working in self.placement.workers:
            sizes = [self.lengths[name][0] + len(self.heard[name]) + 1 for name in names(working.requests)]
            assert len(sizes) <= LIMITS.rows
            assert sum(-(-size // LIMITS.block_size) for size in sizes) <= LIMITS.blocks

    @invariant()
    def another_worker_is_asked_for_if_and_only_if_requests_wait_or_no_worker_has_room(self) -> None:
        roomy = any(
            2 * one.rows <= LIMITS.rows and 2 * one.blocks <= LIMITS.blocks for one in self.placement.workers
        )
        assert (self.placement.scaling().add > 0) is (bool(self.placement.waiting) or not roomy)

    def teardown(self) -> None:
        """All that were not cancelled get their whole answer."""
        self.start_worker(0)
        for _ in range(ROUNDS):
            if not self.lengths:
                break
            for worker, one in self.workers.items():
                self.step(one, 1)
                self.deliver(worker)
        assert not self.lengths
        assert not self.placement.waiting
        assert all(working.blocks == 0 for working in self.placement.workers)

    def step(self, worker: Worker, steps: int) -> None:
        tokens: dict[Attempt, list[int]] = {}
        finished: list[Attempt] = []
        for attempt, done in list(worker.generated.items()):
            length = self.lengths[attempt.request_id][1]
            tokens[attempt] = answer(attempt.request_id, min(done + steps, length))[done:]
            worker.generated[attempt] += len(tokens[attempt])
            if worker.generated[attempt] == length:
                del worker.generated[attempt]
                finished.append(attempt)
        worker.reports.append(Report(tokens, finished))

    def deliver(self, worker: int) -> None:
        report = self.workers[worker].reports.popleft()
        working = next(one for one in self.placement.workers if one.worker == worker)
        for attempt, token_ids in report.tokens.items():
            if attempt in working.requests:
                self.heard[attempt.request_id].extend(token_ids)
        ended = [attempt.request_id for attempt in report.finished if attempt in working.requests]
        commands = self.placement.record(worker, report.tokens, report.finished)
        for request_id in ended:
            assert self.heard[request_id] == answer(request_id, self.lengths[request_id][1])
            self.forget(request_id)
        self.check_newest_left(worker, commands)
        self.obey_in_order(commands)

    def check_newest_left(self, worker: int, commands: Sequence[Command]) -> None:
        left = [int(one.attempt.request_id) for one in commands if not isinstance(one, Add)]
        returned = {one.attempt for one in commands if isinstance(one, Add)}
        working = next(one for one in self.placement.workers if one.worker == worker)
        stayed = [int(name) for name in names(set(working.requests) - returned)]
        assert not left or max(stayed) < min(left)

    def obey_in_order(self, commands: Sequence[Command]) -> None:
        """None that waits has arrived before one that was placed."""
        placed = [int(one.attempt.request_id) for one in commands if isinstance(one, Add)]
        waiting = [int(request.request_id) for request in self.placement.waiting]
        assert placed == sorted(placed)
        assert waiting == sorted(waiting)
        assert not placed or not waiting or max(placed) < min(waiting)
        self.obey(commands)

    def obey(self, commands: Sequence[Command]) -> None:
        for command in commands:
            worker, name = self.workers[command.worker], command.attempt.request_id
            if isinstance(command, Add):
                assert list(command.prompt) == list(range(self.lengths[name][0]))
                assert list(command.generated) == self.heard[name] == answer(name, len(self.heard[name]))
                worker.generated[command.attempt] = len(command.generated)
            else:
                worker.generated.pop(command.attempt, None)

    def forget(self, request_id: str) -> None:
        del self.lengths[request_id], self.heard[request_id]

    def idle(self) -> set[int]:
        return {working.worker for working in self.placement.workers if not working.rows}


def names(attempts: Iterable[Attempt]) -> list[str]:
    return [attempt.request_id for attempt in attempts]


TestPlacement = Cluster.TestCase
TestPlacement.settings = settings(max_examples=50, stateful_step_count=40)

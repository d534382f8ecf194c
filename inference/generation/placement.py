"""Which worker of a cluster generates for which request (Punica, section 5).

A request goes to the busiest worker that has room for it, so that busy workers stay busy and idle ones stay
idle and can be released. Requests that fit nowhere wait in the order of their arrival. A worker that runs out
of KV cache gives its newest request away: the request is cancelled there, and another worker computes its
prompt and the tokens so far again.

Nothing here computes, sends or reads a clock. Callers report what happened, and get back what workers must
do. Nothing calls it yet: workers of one root share a stream of requests.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from inference.generation.working_set import Attempt, PlacedRequest, WorkerLimits, WorkingSet


@dataclass(frozen=True, slots=True)
class Add:
    """The worker computes ``prompt`` and ``generated``, the tokens so far, and goes on from there."""

    worker: int
    attempt: Attempt
    prompt: Sequence[int]
    generated: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """The worker drops the request and frees its blocks."""

    worker: int
    attempt: Attempt


Command = Add | Cancel

Policy = Callable[[Sequence[WorkingSet], PlacedRequest], WorkingSet]
"""Chooses among the workers that have room for a request; there is at least one."""


def busiest(fitting: Sequence[WorkingSet], request: PlacedRequest) -> WorkingSet:  # noqa: ARG001 - a Policy
    """The worker with the largest working set; among equals the one with the highest id."""
    return max(fitting, key=lambda worker: (worker.rows, worker.worker))


@dataclass(frozen=True, slots=True)
class Scaling:
    """How many more workers the cluster needs, those included that are starting, and the ids of those that it
    can do without."""

    add: int
    release: tuple[int, ...]


class Placement:
    """The requests of a cluster of equal workers. Each is on exactly one worker or in the queue."""

    def __init__(self, limits: WorkerLimits, policy: Policy = busiest) -> None:
        self._limits, self._policy = limits, policy
        self._workers: dict[int, WorkingSet] = {}
        self._requests: dict[str, PlacedRequest] = {}
        self._queue: list[PlacedRequest] = []
        self._arrived = 0

    @property
    def workers(self) -> Sequence[WorkingSet]:
        """The working sets of all workers, empty ones too."""
        return list(self._workers.values())

    @property
    def waiting(self) -> Sequence[PlacedRequest]:
        """The queue, the oldest first."""
        return list(self._queue)

    def add_worker(self, worker: int) -> list[Command]:
        """A worker is ready.

        Raises ValueError if its id is taken.
        """
        if worker in self._workers:
            raise ValueError(f"worker {worker} is already there")
        self._workers[worker] = WorkingSet(worker, self._limits)
        return self._place_waiting()

    def remove_worker(self, worker: int) -> list[Command]:
        """A worker is gone, released or dead. Its requests go on elsewhere, in the order of their arrival."""
        gone = self._workers.pop(worker)
        for request in list(gone.requests.values()):
            gone.drop(request)
            self._wait(request)
        return self._place_waiting()

    def add(self, request_id: str, prompt: Sequence[int], max_tokens: int) -> list[Command]:
        """A request arrives: it is placed, or waits behind all that wait already.

        Raises HplmError(invalid_field) if no worker can ever hold it, ValueError if its id is taken.
        """
        if request_id in self._requests:
            raise ValueError(f"request {request_id} is already there")
        self._limits.engine.check_fits(len(prompt), max_tokens)
        blocks = self._limits.blocks_of(len(prompt) + 1)
        request = PlacedRequest(request_id, self._arrived, prompt, max_tokens, blocks)
        self._arrived += 1
        self._requests[request_id] = request
        self._wait(request)
        return self._place_waiting()

    def cancel(self, request_id: str) -> list[Command]:
        """The client no longer wants the answer. Does nothing if the request has ended."""
        request = self._requests.pop(request_id, None)
        if request is None:
            return []
        if request.worker is None:
            self._queue.remove(request)
            return self._place_waiting()  # those behind it may be shorter
        return [self._withdraw(request), *self._place_waiting()]

    def record(
        self, worker: int, tokens: Mapping[Attempt, Sequence[int]], finished: Iterable[Attempt] = ()
    ) -> list[Command]:
        """A worker has done a step: new token ids by attempt, and the requests that ended with them.

        If the rest exceeds its blocks, its newest requests are migrated.
        """
        working = self._workers.get(worker)
        if working is None:
            return []
        for attempt in finished:
            if request := working.requests.get(attempt):
                working.drop(request)
                del self._requests[request.request_id]
        for attempt, token_ids in tokens.items():
            if request := working.requests.get(attempt):
                working.grow(request, token_ids)
        return [*self._migrate(working), *self._place_waiting()]

    def consolidate(self) -> list[Command]:
        """Empty each lightly loaded worker whose requests all fit on workers that are at least as busy.

        Each move costs the other worker a prefill of the prompt and the tokens so far.
        """
        commands: list[Command] = []
        for working in sorted(self._workers.values(), key=lambda one: (one.rows, one.worker)):
            if working.rows and working.lightly_loaded:
                for request, target in self._plan_to_empty(working):
                    commands += [self._withdraw(request), self._start(request, target)]
        return commands + self._place_waiting()

    def scaling(self) -> Scaling:
        """As many workers are needed as those that wait fill with rows, and one if none is lightly loaded.

        Workers without requests can be released. One of them stays if no other worker is lightly loaded.
        """
        add = -(-len(self._queue) // self._limits.rows)
        idle = sorted(working.worker for working in self._workers.values() if not working.rows)
        if any(working.rows and working.lightly_loaded for working in self._workers.values()):
            return Scaling(add, tuple(idle))
        # Among equals the highest id gets the next request.
        return Scaling(add if idle else max(1, add), tuple(idle[:-1]))

    def check_integrity(self) -> None:
        """Assert that every request is in one place and that no worker holds more than its limits."""
        orders = [request.order for request in self._queue]
        assert orders == sorted(orders), "the queue is in the order of arrival"
        assert all(request.worker is None for request in self._queue)
        for working in self._workers.values():
            orders += [request.order for request in working.requests.values()]
            assert working.rows <= self._limits.rows
            assert working.blocks == sum(request.blocks for request in working.requests.values())
            assert working.blocks <= self._limits.blocks
            for attempt, request in working.requests.items():
                assert (request.attempt, request.worker) == (attempt, working.worker)
                assert request.blocks == self._limits.blocks_of(request.tokens + 1)
        assert sorted(orders) == sorted(request.order for request in self._requests.values())

    def _wait(self, request: PlacedRequest) -> None:
        insort(self._queue, request, key=lambda waiting: waiting.order)

    def _place_waiting(self) -> list[Command]:
        """Place the oldest first, until one fits nowhere. None passes it, or it might wait for ever."""
        commands: list[Command] = []
        while self._queue:
            request = self._queue[0]
            fitting = [working for working in self._workers.values() if working.fits(request)]
            if not fitting:
                break
            del self._queue[0]
            commands.append(self._start(request, self._policy(fitting, request)))
        return commands

    def _start(self, request: PlacedRequest, working: WorkingSet) -> Add:
        working.take(request)
        return Add(working.worker, request.attempt, request.prompt, tuple(request.generated))

    def _withdraw(self, request: PlacedRequest) -> Cancel:
        assert request.worker is not None
        command = Cancel(request.worker, request.attempt)
        self._workers[request.worker].drop(request)
        return command

    def _migrate(self, working: WorkingSet) -> list[Command]:
        """Take the newest from a worker that exceeds its blocks. They wait for their turn like all others."""
        commands: list[Command] = []
        while working.blocks > self._limits.blocks:
            newest = working.newest
            commands.append(self._withdraw(newest))
            self._wait(newest)
        return commands

    def _plan_to_empty(self, working: WorkingSet) -> list[tuple[PlacedRequest, WorkingSet]]:
        """Where each request of a worker would go; empty if one of them fits nowhere."""
        others = [one for one in self._workers.values() if one is not working and one.rows >= working.rows]
        planned: dict[int, list[PlacedRequest]] = defaultdict(list)
        plan: list[tuple[PlacedRequest, WorkingSet]] = []
        for request in sorted(working.requests.values(), key=lambda one: one.order):
            fitting = [one for one in others if one.fits(request, planned[one.worker])]
            if not fitting:
                return []
            target = self._policy(fitting, request)
            planned[target.worker].append(request)
            plan.append((request, target))
        return plan

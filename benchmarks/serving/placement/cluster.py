"""A cluster of workers under a virtual clock: the product's placement, and workers whose steps take what a
formula says. Nothing is computed and nothing sleeps.

As in Punica, a worker runs step after step, takes at most one prompt into a step, and drops cancelled
requests when its step ends.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from benchmarks.serving.placement.load import Asked
from inference.generation.limits import GenerationLimits
from inference.generation.placement import Add, Command, Placement, Policy
from inference.generation.working_set import Attempt, WorkerLimits, WorkingSet

TICK_S: Final = 10.0
"""How often the cluster is sampled."""
TOKEN: Final = 0


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step: ``fixed``, for each ``row``, and for each ``prompt_token`` that is computed."""

    fixed: float
    row: float
    prompt_token: float

    def of(self, rows: int, prompt_tokens: int = 0) -> float:
        """Seconds of a step with so many rows, of which one may be a prompt."""
        return self.fixed + self.row * rows + self.prompt_token * prompt_tokens


def worker_limits(rows: int, blocks: int, growth_blocks: int = 4) -> WorkerLimits:
    """Those of workers whose context is as long as their KV cache; no token ids are drawn."""
    size = 16
    engine = GenerationLimits(
        context=blocks * size, vocabulary=1, blocks=blocks, block_size=size, sequences=rows
    )
    return WorkerLimits(engine, growth_blocks)


@dataclass(frozen=True, slots=True)
class Setup:
    """The cluster. ``steps``: so many steps are simulated at once while nothing ends in them, and a request
    that arrives meanwhile waits for them. ``consolidate_s``: every so many seconds, 0 for never.
    ``prefix``: the tokens that all prompts of a model begin with, and ``models``: how many models' prefixes
    and adapters a worker keeps. ``start_s``: how long a new worker takes to start, if workers are added and
    released as placement asks; None: all are there all the time."""

    workers: int
    limits: WorkerLimits
    time: StepTime
    seconds: float
    steps: int = 4
    consolidate_s: float = 0.0
    prefix: int = 0
    models: int = 32
    start_s: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """At a moment: requests that arrived and tokens that were generated so far, and the working set of each
    worker that is there."""

    at: float
    requests: int
    tokens: int
    rows: Mapping[int, int]


@dataclass(slots=True)
class Outcome:
    """What a run showed.

    ``waits``: seconds to the first token; ``token_s``: seconds for each further token, the mean of a request;
    both in the order in which requests end. ``idle``: how long workers stayed idle, each time, if none are
    released; ``held_s``: seconds that workers were there, their starts included. ``moved`` and
    ``recomputed``: second and later attempts, and the tokens that they computed again; ``resident``: of all
    ``prompts``, those whose model the worker had; ``busy_s``, ``row_s``: the duration of all steps, and that
    times rows.
    """

    waits: list[float] = field(default_factory=list)
    token_s: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    held_s: float = 0.0
    tokens: int = 0
    moved: int = 0
    recomputed: int = 0
    prompts: int = 0
    resident: int = 0
    busy_s: float = 0.0
    row_s: float = 0.0


@dataclass(slots=True, eq=False)
class SimulatedWorker:
    """``ends``: the step with which each running request ends; ``prefill``: the prompt of the current step;
    ``models``: those it has, the one used last at the end."""

    working: WorkingSet
    since: float
    steps: int = 0
    running: bool = False
    ends: dict[Attempt, int] = field(default_factory=dict)
    prompts: deque[Add] = field(default_factory=deque)
    prefill: Add | None = None
    models: dict[int, None] = field(default_factory=dict)
    idle_since: float | None = None


class Cluster:
    """Runs all of ``asked`` to the end."""

    def __init__(self, asked: Sequence[Asked], setup: Setup, policy: "Callable[[Cluster], Policy]") -> None:
        self.asked, self._setup = asked, setup
        self.workers: dict[int, SimulatedWorker] = {}
        self.outcome = Outcome()
        self._placement = Placement(setup.limits, policy(self))
        self._now, self._arrived = 0.0, 0
        self._first: dict[str, float] = {}
        self._starting: set[int] = set()
        self._tokens = [(TOKEN,) * steps for steps in range(setup.steps + 1)]
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def run(self) -> Outcome:
        """Simulate until the last request has ended."""
        for number in range(self._setup.workers if self._setup.start_s is None else 1):
            self._ready(number, 0.0)
        self._at(0.0, self._tick)
        if self.asked:
            self._at(self.asked[0].at, self._arrive)
        while self._events:
            self._now, _, event = heapq.heappop(self._events)
            event()
        for worker in self.workers.values():
            self._leave(worker)
        self._placement.check_integrity()
        return self.outcome

    def _at(self, moment: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._numbers), event))

    def _arrive(self) -> None:
        asked = self.asked[self._arrived]
        commands = self._placement.add(str(self._arrived), range(asked.prompt), asked.answer)
        self._arrived += 1
        if self._arrived < len(self.asked):
            self._at(self.asked[self._arrived].at, self._arrive)
        self._obey(commands)

    def _tick(self) -> None:
        setup, placement = self._setup, self._placement
        rows = {one.worker: one.rows for one in placement.workers}
        self.outcome.samples.append(Sample(self._now, self._arrived, self.outcome.tokens, rows))
        if setup.consolidate_s and self._now % setup.consolidate_s < TICK_S:
            self._obey(placement.consolidate())
        if setup.start_s is not None:
            self._scale(setup.start_s)
        if self._now < setup.seconds:
            self._at(self._now + TICK_S, self._tick)

    def _scale(self, start_s: float) -> None:
        scaling = self._placement.scaling()
        for released in scaling.release:
            if not self.workers[released].running:
                self._leave(self.workers.pop(released))
                self._obey(self._placement.remove_worker(released))
        free = set(range(self._setup.workers)) - set(self.workers) - self._starting
        for worker in sorted(free, reverse=True)[: max(0, scaling.add - len(self._starting))]:
            self._starting.add(worker)
            self._at(self._now + start_s, partial(self._ready, worker, self._now))

    def _ready(self, worker: int, since: float) -> None:
        self._starting.discard(worker)
        commands = self._placement.add_worker(worker)
        working = next(one for one in self._placement.workers if one.worker == worker)
        self.workers[worker] = SimulatedWorker(working, since, idle_since=self._now)
        self._obey(commands)

    def _leave(self, worker: SimulatedWorker) -> None:
        """Count the time that a worker was there, within the simulated hour."""
        self._end_of_idle(worker)
        self.outcome.held_s += max(0.0, min(self._now, self._setup.seconds) - worker.since)

    def _end_of_idle(self, worker: SimulatedWorker) -> None:
        if worker.idle_since is not None and self._setup.start_s is None:
            self.outcome.idle.append(max(0.0, min(self._now, self._setup.seconds) - worker.idle_since))
        worker.idle_since = None

    def _obey(self, commands: Sequence[Command]) -> None:
        for command in commands:
            worker = self.workers[command.worker]
            if isinstance(command, Add):
                worker.prompts.append(command)
                if not worker.running:
                    self._end_of_idle(worker)
                    self._begin(worker)
            elif worker.ends.pop(command.attempt, None) is None:
                worker.prompts = deque(one for one in worker.prompts if one.attempt != command.attempt)

    def _begin(self, worker: SimulatedWorker) -> None:
        """Start a worker's next step, or several at once."""
        worker.running = bool(worker.prompts or worker.ends)
        if not worker.running:
            worker.idle_since = self._now
            return
        steps, rows, tokens = 1, len(worker.ends), 0
        if worker.prompts:
            worker.prefill = worker.prompts.popleft()
            tokens = self._prefill_tokens(worker, worker.prefill)
            rows += 1
        elif self._setup.limits.blocks - worker.working.blocks >= rows:
            steps = min(self._setup.steps, min(worker.ends.values()) - worker.steps)
        seconds = steps * self._setup.time.of(rows, tokens)
        self.outcome.busy_s += seconds
        self.outcome.row_s += seconds * rows
        self._at(self._now + seconds, partial(self._end, worker, steps))

    def _prefill_tokens(self, worker: SimulatedWorker, prefill: Add) -> int:
        """Tokens to compute: all but those of the model's prefix, if the worker has it."""
        outcome, request_id = self.outcome, prefill.attempt.request_id
        tokens = len(prefill.prompt) + len(prefill.generated)
        model = self.asked[int(request_id)].model
        outcome.prompts += 1
        if model in worker.models:
            del worker.models[model]
            outcome.resident += 1
            tokens -= min(self._setup.prefix, len(prefill.prompt) - 1)
        elif len(worker.models) == self._setup.models:
            del worker.models[next(iter(worker.models))]
        worker.models[model] = None
        if prefill.attempt.number > 1:
            outcome.moved += 1
            outcome.recomputed += tokens
        return tokens

    def _end(self, worker: SimulatedWorker, steps: int) -> None:
        """The steps are done: report their tokens, obey, go on."""
        worker.steps += steps
        if worker.prefill is not None:
            attempt, done = worker.prefill.attempt, len(worker.prefill.generated)
            # One that was cancelled meanwhile is no longer in the working set.
            if attempt in worker.working.requests:
                answer = self.asked[int(attempt.request_id)].answer
                worker.ends[attempt] = worker.steps + answer - done - 1
                self._first.setdefault(attempt.request_id, self._now)
            worker.prefill = None
        produced = dict.fromkeys(worker.ends, self._tokens[steps])
        finished = [attempt for attempt, last in worker.ends.items() if last == worker.steps]
        for attempt in finished:
            del worker.ends[attempt]
            self._finish(attempt)
        self.outcome.tokens += steps * len(produced)
        self._obey(self._placement.record(worker.working.worker, produced, finished))
        self._begin(worker)

    def _finish(self, attempt: Attempt) -> None:
        asked, first = self.asked[int(attempt.request_id)], self._first.pop(attempt.request_id)
        self.outcome.waits.append(first - asked.at)
        if asked.answer > 1:
            self.outcome.token_s.append((self._now - first) / (asked.answer - 1))

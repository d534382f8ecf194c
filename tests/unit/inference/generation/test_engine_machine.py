"""Requests come, fail and lose their blocks in any order: each gets its own tokens and one last event."""

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inference.engine.rows import ModelIdentity
from inference.generation.requests import FinishReason, GenerationRequest
from tests.unit.inference.generation.worlds import VOCABULARY, World, a_model, a_request, completion_of

MODELS = [a_model(tenant, name) for tenant, name in (("a", "x"), ("a", "y"), ("b", "x"), ("c", "x"))]
DAMAGED = a_model("d", "damaged")
LONGEST_ALONE = 20
"""Steps that the longest request takes alone, its adapter's load included."""


class EngineMachine(RuleBasedStateMachine):
    """Three sequences in a step, blocks for one and a half of the longest, two slots for four adapters.
    ``may_fail`` are the requests that something was done to, and the only reasons for which they may end
    before their last token."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(slots=2, blocks=9, block_size=4, sequences=3, step_tokens=6, context=24)
        self.world.adapters.damaged.add(DAMAGED.digest)
        self.numbers = itertools.count()
        self.live: dict[str, GenerationRequest] = {}
        self.ended: dict[str, GenerationRequest] = {}
        self.cancelled: set[str] = set()
        self.may_fail: dict[str, str] = {}

    @rule(
        model=st.sampled_from([*MODELS, DAMAGED]),
        alike=st.integers(1, 12),
        different=st.lists(st.integers(0, 1), max_size=2),
        max_tokens=st.integers(1, 10),
        stop_tokens=st.frozensets(st.integers(0, VOCABULARY - 1), max_size=8),
        generated_elsewhere=st.integers(0, 4),
        seconds=st.none() | st.integers(1, 5),
    )
    def add(
        self,
        model: ModelIdentity,
        alike: int,
        different: list[int],
        max_tokens: int,
        stop_tokens: frozenset[int],
        generated_elsewhere: int,
        seconds: int | None,
    ) -> None:
        def request(completion: tuple[int, ...] = ()) -> GenerationRequest:
            return a_request(
                name,
                (*range(alike), *different),
                max_tokens,
                model=model,
                stop_tokens=stop_tokens,
                completion=completion,
                deadline=None if seconds is None else self.world.now + seconds,
            )

        name = f"r{next(self.numbers)}"
        expected = completion_of(request())
        self.live[name] = request(expected[: min(generated_elsewhere, len(expected) - 1)])
        self.world.add(self.live[name])
        if model is DAMAGED:
            self.may_fail[name] = "corrupt_artifact"

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.live)))
        assert self.world.engine.cancel(name)
        self.cancelled.add(name)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), whole_step=st.booleans())
    def fail(self, data: st.DataObject, whole_step: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.live)))
        (self.world.runner.raising if whole_step else self.world.runner.failing).add(name)
        self.may_fail.setdefault(name, "inference_failed")

    @precondition(lambda self: self.world.adapters.loading)
    @rule(data=st.data())
    def finish_a_load(self, data: st.DataObject) -> None:
        self.world.adapters.finish(data.draw(st.sampled_from(sorted(self.world.adapters.loading))))

    @rule(seconds=st.integers(1, 2))
    def pass_time(self, seconds: int) -> None:
        self.world.now += seconds

    @rule(count=st.integers(1, 6), loads_finish=st.booleans())
    def steps(self, count: int, loads_finish: bool) -> None:
        for _ in range(count):
            self.step(loads_finish)

    def step(self, loads_finish: bool) -> None:
        unwanted = self.cancelled | {
            name
            for name, request in self.live.items()
            if request.deadline is not None and request.deadline <= self.world.now
        }
        computed = len(self.world.runner.steps)
        for event in self.world.step(loads_finish=loads_finish):
            if event.finish_reason is FinishReason.CANCELLED:
                assert event.request_id in self.cancelled
            if event.finish_reason is not None:
                self.ended[event.request_id] = self.live.pop(event.request_id)
        assert unwanted.isdisjoint(self.live)
        assert all(unwanted.isdisjoint(step) for step in self.world.runner.steps[computed:])
        self.cancelled.clear()

    @invariant()
    def no_token_is_lost_or_repeated(self) -> None:
        for name, request in (self.live | self.ended).items():
            events = self.world.events[name]
            there = len(request.completion)
            assert [event.index for event in events] == [*range(there, there + len(events))]
            tokens = self.world.tokens(name)
            assert tokens == completion_of(request)[there : there + len(tokens)]

    @invariant()
    def each_request_that_ended_has_one_last_event(self) -> None:
        for name, request in (self.live | self.ended).items():
            events = self.world.events[name]
            reasons = [event.finish_reason for event in events if event.finish_reason is not None]
            assert len(reasons) == (name in self.ended)
            if reasons and events[-1].token is not None:
                assert request.completion + self.world.tokens(name) == completion_of(request)

    @invariant()
    def requests_fail_for_their_own_reasons(self) -> None:
        for name, request in self.ended.items():
            last = self.world.events[name][-1]
            if last.finish_reason is FinishReason.ERROR:
                assert last.error is not None
                passed = request.deadline is not None and request.deadline <= self.world.now
                assert last.error.code == self.may_fail.get(name) or (
                    passed and last.error.code == "deadline_exceeded"
                )

    def teardown(self) -> None:
        self.world.drain(LONGEST_ALONE * (len(self.live) + 1))
        self.world.adapters.finish_all()
        self.no_token_is_lost_or_repeated()


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(deadline=None, stateful_step_count=60)

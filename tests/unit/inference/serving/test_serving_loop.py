"""The worker's loop in virtual time: fairness, deadlines, and one answer for each request."""

import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.cascade.dispatcher import Level
from inference.queueing.transport import CANCELLED
from tests.unit.inference.serving.simulated_engine import FAILING, SURE_FROM, Simulation, poisson

QUIET = [f"quiet{number}" for number in range(20)]
SECONDS = 6.0
FLOOD_TIMES = 50
"""The flood asks so many times as often as each of the others."""
PLACES = 96
"""Of the queue: the door refuses what is too much."""

requests = st.lists(
    st.tuples(
        st.sampled_from("abc"),  # tenant
        st.floats(0.0, 0.5),  # arrival
        st.lists(st.integers(1, 200), min_size=1, max_size=6),  # tokens of each text
        st.sampled_from([0.01, 0.1, 60.0]),  # seconds until the deadline
        st.booleans(),  # in the background
        st.none() | st.floats(0.0, 0.5),  # cancelled so long after the arrival
        st.booleans(),  # its texts go on from the tables
    ),
    min_size=1,
    max_size=30,
)


def p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * len(values))]


def quiet_tenants(*, flood: bool, cores: int, load: float) -> Simulation:
    """20 tenants that ask for ``load`` of what the engine can do in full batches, and perhaps a flood beside
    them. Their requests are the same with and without it."""
    simulation, draw = Simulation(cores=cores), random.Random(7)
    rate = load * cores / (60 * simulation.took.token_s) / len(QUIET)
    for tenant in QUIET:
        for at in poisson(draw, rate, SECONDS):
            simulation.ask(tenant, at)
    for at in poisson(draw, FLOOD_TIMES * rate, SECONDS) if flood else ():
        simulation.clock.at(simulation.start + at, partial(ask_if_let_in, simulation, at))
    simulation.run()
    return simulation


def ask_if_let_in(simulation: Simulation, at: float) -> None:
    if simulation.queue.outstanding("flood") < PLACES:
        simulation.ask("flood", at)


@pytest.mark.parametrize(("cores", "load"), [(1, 0.35), (2, 0.35), (2, 0.7), (8, 0.35)])
def test_a_flood_delays_quiet_tenants_by_half_at_most(cores: int, load: float) -> None:
    without, beside = (quiet_tenants(flood=flood, cores=cores, load=load) for flood in (False, True))
    assert len(beside.waited("flood")) > len(beside.waited(*QUIET)) / 4
    assert p95(beside.waited(*QUIET)) <= 1.5 * p95(without.waited(*QUIET))


def test_two_floods_share_the_engine_by_weight() -> None:
    simulation = Simulation(weights={"heavy": 3.0})
    for tenant in ("heavy", "light"):
        for _ in range(400):
            simulation.ask(tenant, 0.0)
    simulation.run()
    half = sorted(simulation.waited("heavy", "light"))[399]
    heavy, light = (sum(s <= half for s in simulation.waited(tenant)) for tenant in ("heavy", "light"))
    assert heavy == pytest.approx(3 * light, rel=0.2)


@settings(max_examples=30, deadline=None)
@given(requests, st.sampled_from([1, 2, 3]))
def test_every_request_gets_exactly_one_answer(
    asked: list[tuple[str, float, list[int], float, bool, float | None, bool]], cores: int
) -> None:
    """The first one was left behind by a worker that died."""
    simulation = Simulation(cores=cores, rows=4, backlog_rows=8)
    cancelled = set()
    for place, (tenant, at, tokens, within_s, background, cancelled_after, escalating) in enumerate(asked):
        request = simulation.ask(
            tenant,
            at,
            tokens=tokens,
            within_s=within_s,
            background=background,
            abandoned=place == 0,
            escalating=escalating,
        )
        if cancelled_after is not None:
            simulation.queue.cancel(request, simulation.start + at + cancelled_after)
            cancelled.add(request)
    simulation.run()
    assert simulation.queue.replies.keys() == simulation.queue.sent.keys()
    for request_id, sent in simulation.queue.sent.items():
        code = simulation.code(request_id)  # it has one answer
        fails = any(len(each) == FAILING for each in sent.sequences)
        assert code in {"inference_failed" if fails else "", "deadline_exceeded", CANCELLED}
        assert code != CANCELLED or request_id in cancelled
        assert code != "deadline_exceeded" or sent.deadline - sent.enqueued_at < 1.0
        for output, text in zip(simulation.outputs(request_id), sent.sequences, strict=not code):
            goes_on = sent.dispatcher is not None and len(text) < SURE_FROM
            assert output.level is (Level.FULL if goes_on else Level.TABLE)
    assert simulation.scheduler.backlog_rows == 0
    assert simulation.catalogue.pool.checks > 0  # it came to rest


def test_escalated_row_has_both_answers_and_is_first_of_its_tenant() -> None:
    simulation = Simulation(cores=1, rows=1)
    first = simulation.ask("a", 0.0, escalating=True)
    others = [simulation.ask("a", 0.0) for _ in range(3)]
    simulation.run()
    # The one after it was begun before it was known to go on.
    assert list(simulation.queue.replies) == [others[0], first, *others[1:]]
    [output] = simulation.outputs(first)
    assert output.level is Level.FULL
    assert output.from_tables
    assert not any(output.from_tables for other in others for output in simulation.outputs(other))
    assert simulation.engine.sizes == [1] * 5


def test_rows_of_a_request_go_on_together_after_the_last_from_the_tables() -> None:
    simulation = Simulation(cores=1, rows=4)
    simulation.ask("a", 0.0, tokens=[60] * 10, escalating=True)
    simulation.run()
    assert simulation.engine.sizes == [4, 4, 2, 4, 4, 2]
    assert simulation.engine.full_rows == [0, 0, 0, 4, 4, 2]


def test_a_worker_that_drains_computes_the_rows_that_go_on() -> None:
    simulation = Simulation(cores=1, rows=4)
    request = simulation.ask("a", 0.0, tokens=[60] * 10, escalating=True)
    simulation.loop.step()
    for _ in range(10):
        simulation.loop.step(taking=False)
    assert simulation.loop.is_drained
    assert {output.level for output in simulation.outputs(request)} == {Level.FULL}


def test_escalated_rows_are_charged_for_both_levels() -> None:
    """Of two tenants that ask for as much, the one whose texts all go on is served less."""
    simulation = Simulation(rows=8)
    for _ in range(200):
        simulation.ask("onward", 0.0, escalating=True)
        simulation.ask("plain", 0.0)
    simulation.run()
    half = sorted(simulation.waited("onward", "plain"))[199]
    onward, plain = (sum(s <= half for s in simulation.waited(tenant)) for tenant in ("onward", "plain"))
    # Three lower layers beside three upper ones: a text that goes on takes three times as long.
    assert plain == pytest.approx(3 * onward, rel=0.25)


def test_expired_requests_are_answered_and_not_computed() -> None:
    simulation = Simulation(cores=1, rows=1)
    in_time = [simulation.ask("a", 0.0, tokens=[100], within_s=60.0) for _ in range(10)]
    late = [simulation.ask("b", 0.0, tokens=[100], within_s=0.03) for _ in range(10)]
    simulation.run()
    assert {simulation.code(request) for request in in_time} == {""}
    codes = [simulation.code(request) for request in late]
    assert codes.count("deadline_exceeded") >= 8
    assert len(simulation.engine.sizes) == 20 - codes.count("deadline_exceeded")
    [waited] = {round(s, 3) for s in simulation.waited("b")[-1:]}
    assert 0.03 <= waited < 0.03 + 2 * simulation.took.of(100)


def test_abandoned_request_waits_while_the_other_loop_computes_a_suspect() -> None:
    simulation = Simulation()
    left = simulation.ask("first", 0.0, abandoned=True)
    new = simulation.ask("second", 0.0)
    with simulation.alone:
        for _ in range(10):
            simulation.loop.step()
        assert [*simulation.queue.replies] == [new]
    simulation.run()
    assert [*simulation.queue.replies] == [new, left]
    assert not simulation.alone.locked()


def test_background_requests_wait_for_all_others() -> None:
    simulation = Simulation()
    for _ in range(20):
        simulation.ask("behind", 0.0, background=True)
    for number in range(20):
        simulation.ask("first", 0.01 * number)
    simulation.run()
    assert max(simulation.waited("first")) < 0.1
    assert min(sorted(simulation.waited("behind"))[5:]) > 0.2


@pytest.mark.parametrize("cores", [1, 2])
def test_background_requests_are_computed_between_others_that_leave_time(cores: int) -> None:
    simulation = Simulation(cores=cores)
    for number in range(100):
        simulation.ask("first", 0.02 * number)
    simulation.ask("behind", 0.5, background=True)
    simulation.run()
    assert max(simulation.waited("behind")) < 0.1

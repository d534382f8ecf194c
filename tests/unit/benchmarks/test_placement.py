"""A simulated cluster: its clock, its workers, and what each placement makes of the same requests."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.serving.placement.__main__ import main
from benchmarks.serving.placement.cluster import Cluster, Outcome, Setup, StepTime, worker_limits
from benchmarks.serving.placement.load import Asked, draw, shares, trace_lengths
from benchmarks.serving.placement.policies import POLICIES, ModelAware
from benchmarks.serving.placement.report import figures, over_time, released_share, summary
from inference.generation.working_set import PlacedRequest, WorkingSet

TIME = StepTime(fixed=1.0, row=0.25, prompt_token=0.125)
ALONE = Setup(workers=1, limits=worker_limits(8, 100), time=TIME, seconds=600.0, steps=1)
CLUSTER = replace(ALONE, workers=4, limits=worker_limits(4, 100))
SPARSE = [Asked(at=60.0 * n, model=n % 3, prompt=8, answer=10) for n in range(8)]


def run(asked: list[Asked], setup: Setup, policy: str = "busiest") -> Outcome:
    return Cluster(asked, setup, lambda _: POLICIES[policy]()).run()


def test_a_lone_request_takes_its_prompt_and_a_step_for_each_further_token() -> None:
    outcome = run([Asked(at=5.0, model=0, prompt=8, answer=4)], ALONE)
    assert outcome.waits == [1.0 + 0.25 + 8 * 0.125]
    assert outcome.token_s == [1.25]
    assert outcome.tokens == 4


def test_a_request_joins_when_the_step_that_it_finds_running_ends() -> None:
    first, second = Asked(at=0.0, model=0, prompt=8, answer=4), Asked(at=3.0, model=0, prompt=8, answer=1)
    outcome = run([first, second], ALONE)
    # Steps end at 2.25 and 3.5; the third one has the new prompt beside the first request, which ends later.
    assert outcome.waits == [0.5 + 1.0 + 2 * 0.25 + 8 * 0.125, 2.25]


def test_steps_that_are_simulated_at_once_take_as_long_as_one_by_one() -> None:
    asked = [Asked(at=0.0, model=0, prompt=8, answer=100)]
    assert run(asked, ALONE).token_s == run(asked, replace(ALONE, steps=8)).token_s


def test_a_prefix_that_the_worker_has_is_not_computed_again() -> None:
    asked = [Asked(at=100.0 * n, model=n // 2, prompt=8, answer=1) for n in range(3)]
    outcome = run(asked, replace(ALONE, prefix=4))
    assert outcome.waits == [2.25, 1.75, 2.25]
    assert outcome.resident == 1


@pytest.mark.parametrize(("margin", "chosen"), [(0, 2), (1, 0)])
def test_a_worker_that_has_the_model_is_taken_if_it_is_nearly_as_busy(margin: int, chosen: int) -> None:
    workers = [WorkingSet(worker, CLUSTER.limits) for worker in range(3)]
    policy = ModelAware(lambda _: 7, {0: {7: None}, 1: {}, 2: {}}.__getitem__, margin)
    assert policy(workers, a_request()).worker == 0
    workers[2].take(a_request())
    assert policy(workers, a_request()).worker == chosen


def a_request() -> PlacedRequest:
    return PlacedRequest("a", 0, range(8), 4, blocks=1)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_request_gets_its_whole_answer(policy: str) -> None:
    draws = np.random.default_rng(0)
    lengths = draws.integers(1, 200, size=(50, 2))
    asked = draw(lengths, "skewed", peak=0.5, seconds=300.0, seed=1)
    setup = replace(CLUSTER, limits=worker_limits(8, 40, growth_blocks=0), consolidate_s=20.0, steps=4)
    outcome = run(asked, setup, policy)
    assert outcome.tokens == sum(one.answer for one in asked)
    assert len(outcome.waits) == len(asked)
    assert outcome.moved > 0
    assert outcome.recomputed > 0


def test_the_busiest_worker_leaves_others_idle_and_round_robin_does_not() -> None:
    outcomes = {policy: run(SPARSE, CLUSTER, policy) for policy in POLICIES}
    released = figures(outcomes, CLUSTER)
    assert released["released_busiest"] > 0.75
    assert {worker for worker, _ in _used(outcomes["busiest"])} == {3}
    assert {worker for worker, _ in _used(outcomes["round robin"])} == {0, 1, 2, 3}
    assert released["lost"] == 0


def _used(outcome: Outcome) -> list[tuple[int, int]]:
    return [one for sample in outcome.samples for one in sample.rows.items() if one[1]]


def test_workers_come_when_they_are_needed_and_go_when_they_are_idle() -> None:
    crowd = [Asked(at=100.0 + n, model=0, prompt=8, answer=60) for n in range(8)]
    outcome = run(crowd, replace(CLUSTER, start_s=20.0, consolidate_s=20.0))
    there = [len(sample.rows) for sample in outcome.samples]
    assert there[0] == 1
    assert max(there) > 1
    assert there[-1] == 1
    assert len(outcome.waits) == len(crowd)
    assert 0.5 < released_share(outcome, CLUSTER) < 0.75


def test_half_an_hour_at_the_highest_rate_is_as_many_requests_as_the_ramp() -> None:
    asked = draw(np.array([[5, 3]]), "uniform", peak=4.0, seconds=3600.0, seed=1)
    assert len(asked) == pytest.approx(7200, rel=0.05)
    middle = sum(1500 <= one.at < 2100 for one in asked)
    assert middle == pytest.approx(600 * 4.0 * 11 / 12, rel=0.1)
    assert len({one.model for one in asked}) == 85
    assert {(one.prompt, one.answer) for one in asked} == {(5, 3)}


def test_each_model_is_half_as_popular_again_as_the_next() -> None:
    skewed = shares("skewed", 100)
    assert skewed.sum() == pytest.approx(1)
    assert skewed[:-1] / skewed[1:] == pytest.approx(np.full(63, 1.5))
    assert len(shares("distinct", 100)) == 100
    assert len(shares("uniform", 99)) == 10


def test_a_trace_gives_lengths_that_fit(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,90,20\n2023-11-16,5,0\n2023-11-16,5,700\n"
    )
    assert trace_lengths(trace, longest=100).tolist() == [[80, 20], [5, 1], [1, 99]]


def test_tables_have_every_policy() -> None:
    outcomes = {policy: run(SPARSE, CLUSTER, policy) for policy in POLICIES}
    assert [row["placed on"] for row in summary(outcomes, CLUSTER)] == list(POLICIES)
    times = over_time(outcomes, CLUSTER)
    assert [row["minutes"] for row in times[:2]] == ["0 to 1", "1 to 2"]
    assert all(f"workers, {policy}" in times[0] for policy in POLICIES)


def test_the_command_measures_all_policies_and_variants(tmp_path: Path) -> None:
    trace, result = tmp_path / "trace.csv", tmp_path / "placement.json"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,50,20\n")
    asked = ["--trace", str(trace), "--peak", "0.2", "--quick", "--variants", "--prefix", "16"]
    assert main([*asked, "--json", str(result)]) == 0
    found = json.loads(result.read_text())
    assert found["figures"]["lost"] == 0
    assert len([name for name in found["figures"] if name.startswith("released_")]) == 7
    assert found["settings"]["trace"] == "trace.csv"

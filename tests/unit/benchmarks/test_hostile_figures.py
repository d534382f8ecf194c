"""How the figures of `benchmarks.hostile` come about: restarts, ratios, and what missed its aim."""

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.hostile.figures import MIB, Attacked, Killed, figures, missed, p95, restarted, together

CALM = Attacked(
    name="forms",
    seconds=[0.02] * 100,
    beside=[0.02] * 100,
    failures=[],
    cores=0.5,
    memory=Counter(web=600 * MIB, beat=400 * MIB),
    restarts=0,
)
CLEAN = Killed(
    child="beat", recovery_s=2.5, failures=[], restarts=1, restarts_of_others=0, product_ended=False
)


def found(*attacks: Attacked, kills: tuple[Killed, ...] = (CLEAN,)) -> dict[str, float]:
    return figures(attacks, kills, memory_before=Counter(web=900 * MIB), disk_growth=MIB)


def test_a_child_was_started_again_once_for_each_new_process() -> None:
    first = {"web": (10, 1.0), "beat": (11, 1.0)}
    without_web = {"beat": (11, 1.0)}
    again = {"web": (12, 5.0), "beat": (11, 1.0)}
    assert restarted([first, without_web, again, again]) == {"web": 1, "beat": 0}
    assert restarted([first, without_web, first]) == {"web": 0, "beat": 0}


def test_the_same_id_at_another_time_is_another_process() -> None:
    assert restarted([{"web": (10, 1.0)}, {"web": (10, 9.0)}]) == {"web": 1}


def test_the_worst_attack_gives_the_ratio() -> None:
    slow = replace(CALM, seconds=[0.02] * 90 + [0.5] * 10)
    assert found(CALM, slow)["p95_ratio"] == pytest.approx(25.0)
    assert p95([]) == 0.0


def test_failures_and_executed_requests_of_all_are_added_up() -> None:
    failing = replace(CALM, failures=["a", "b"], counted={"executed": 3})
    figured = found(CALM, failing, kills=(replace(CLEAN, failures=["c"]),))
    assert (figured["good_failed"], figured["truncated_executed"]) == (3, 3)
    assert (figured["good_failed_attacks"], figured["good_failed_kills"]) == (2, 1)


def test_memory_is_the_largest_beyond_what_there_was_before() -> None:
    assert found(CALM, replace(CALM, memory=Counter(web=1600 * MIB)))["memory_growth_mb"] == 700


def test_rounds_of_one_attack_are_one() -> None:
    both = together(
        [CALM, replace(CALM, seconds=[0.1] * 100, failures=["a"], memory=Counter(web=2000 * MIB))]
    )
    assert (len(both.seconds), len(both.failures), both.memory.total()) == (200, 1, 2000 * MIB)


def test_what_is_as_it_should_be_misses_nothing() -> None:
    assert missed(found(CALM)) == []
    assert found(CALM)["recovery_s_beat"] == 2.5


@pytest.mark.parametrize(
    "killed",
    [
        replace(CLEAN, restarts=2),
        replace(CLEAN, restarts_of_others=1),
        replace(CLEAN, product_ended=True),
        replace(CLEAN, recovery_s=None),
    ],
    ids=["twice", "another", "all of it", "never"],
)
def test_a_kill_after_which_more_or_less_than_one_child_comes_back_is_told(killed: Killed) -> None:
    assert missed(found(CALM, kills=(killed,)))

"""Algorithm 1 of PetS: its splits are the best there are, and no query is lost or computed twice."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pets.coordinated_batching import (
    Query,
    alpha_only,
    batch_seconds,
    best_split,
    beta_only,
    choose_policy,
    coordinated,
    fixed_size,
    longest,
    plan_seconds,
)

KINDS = ("Adapter", "LoRA")
COSTS = st.lists(st.lists(st.integers(1, 50), min_size=9, max_size=9), min_size=9, max_size=9)
"""[number of queries][length]: latencies without any order in them."""


@st.composite
def queues(draw: st.DrawFn) -> list[Query]:
    asked = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 8)), min_size=1, max_size=8))
    return [Query(task, KINDS[task % 2], length) for task, length in asked]


def every_split(size: int) -> Iterator[list[tuple[int, int]]]:
    for cuts in range(size):
        for chosen in combinations(range(1, size), cuts):
            bounds = [0, *chosen, size]
            yield [*pairwise(bounds)]


def least(sizes: Sequence[int], seconds: Callable[[int, int], float], most: int) -> float:
    """By trying all splits."""
    return min(
        sum(seconds(begin, end) for begin, end in parts)
        for parts in every_split(len(sizes))
        if all(sum(sizes[begin:end]) <= most or end == begin + 1 for begin, end in parts)
    )


@given(st.lists(st.integers(1, 3), min_size=1, max_size=8), COSTS, st.integers(1, 9))
def test_the_best_split_is_that_of_trying_all(sizes: list[int], costs: list[list[int]], most: int) -> None:
    def seconds(begin: int, end: int) -> float:
        return costs[begin][end]

    parts = best_split(sizes, seconds, most)
    assert [begin for begin, _ in parts] == [0, *(end for _, end in parts[:-1])]
    assert parts[-1][1] == len(sizes)
    assert sum(seconds(*part) for part in parts) == least(sizes, seconds, most)


@given(queues(), COSTS, COSTS)
def test_each_step_of_coordinated_batching_costs_the_least(
    queries: list[Query], alphas: list[list[int]], betas: list[list[int]]
) -> None:
    plan = coordinated(queries, lambda n, length: alphas[n][length], lambda _, n, length: betas[n][length])
    minis = [mini for macro in plan for mini in macro]
    assert [*map(longest, minis)] == sorted(map(longest, minis))
    for task in {query.task for query in queries}:
        lengths = sorted(query.length for query in queries if query.task == task)
        found = sum(betas[len(mini)][longest(mini)] for mini in minis if mini[0].task == task)
        assert found == least([1] * len(lengths), by_lengths(lengths, betas), most=8)
    sizes, lengths = [*map(len, minis)], [*map(longest, minis)]
    found = sum(alphas[sum(map(len, macro))][longest(macro[-1])] for macro in plan)
    assert found == least(sizes, lambda begin, end: alphas[sum(sizes[begin:end])][lengths[end - 1]], most=8)


def by_lengths(lengths: Sequence[int], costs: list[list[int]]) -> Callable[[int, int], float]:
    return lambda begin, end: costs[end - begin][lengths[end - 1]]


def alpha(count: int, length: int) -> float:
    return 5 + count * length


def beta(kind: str, count: int, length: int) -> float:
    return 3 + count * length * (1 + KINDS.index(kind))


@given(queues(), st.integers(1, 4))
def test_every_query_is_in_one_batch_beside_those_of_its_task(queries: list[Query], most: int) -> None:
    plans = [
        coordinated(queries, alpha, beta, most),
        alpha_only(queries, alpha, most),
        beta_only(queries, beta, most),
        fixed_size(queries, most),
    ]
    for plan in plans:
        assert Counter(query for macro in plan for mini in macro for query in mini) == Counter(queries)
        assert all(len({query.task for query in mini}) == 1 for macro in plan for mini in macro)
        assert all(sum(map(len, macro)) <= most for macro in plan)


def test_a_batch_costs_its_shared_operators_and_those_of_each_mini_batch() -> None:
    first, second = (Query(0, "Adapter", 3), Query(0, "Adapter", 7)), (Query(1, "LoRA", 5),)
    assert batch_seconds((first, second), alpha, beta) == (5 + 3 * 7) + (3 + 2 * 7) + (3 + 1 * 5 * 2)
    assert plan_seconds([(first,), (second,)], alpha, beta) == (5 + 14) + (3 + 14) + (5 + 5) + (3 + 10)


def test_queries_of_fixed_batches_stay_in_their_order() -> None:
    queries = [Query(at % 2, KINDS[at % 2], 1 + at) for at in range(5)]
    plan = fixed_size(queries, 3)
    assert [[len(mini) for mini in macro] for macro in plan] == [[2, 1], [1, 1]]


@pytest.mark.parametrize(("lengths", "policy"), [([32, 33, 31], "coordinated"), ([8, 56], "alpha-only")])
def test_lengths_that_differ_much_are_batched_by_the_shared_operators_alone(
    lengths: list[int], policy: str
) -> None:
    assert choose_policy(lengths, threshold=4) == policy

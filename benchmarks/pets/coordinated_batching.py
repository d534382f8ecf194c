"""Coordinated batching (PetS, Algorithm 1) and the policies that section 6.4 compares it with.

Queries are padded to the longest of their batch. A mini-batch holds queries of one task, which its PET
operators compute together; a macro-batch holds mini-batches, which the shared operators compute together.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import pstdev
from typing import Final

MOST_QUERIES: Final = 128
"""Of a macro-batch: latencies are not measured beyond it."""


@dataclass(frozen=True, slots=True)
class Query:
    """A text of `length` tokens for `task`, whose PET is of that kind."""

    task: int
    kind: str
    length: int


MiniBatch = tuple[Query, ...]
MacroBatch = tuple[MiniBatch, ...]
Plan = list[MacroBatch]
Alpha = Callable[[int, int], float]
"""alpha(N, L): seconds of the shared operators for N queries padded to L tokens."""
Beta = Callable[[str, int, int], float]
"""beta(kind, n, l): seconds of the PET operators of a kind for n queries of one task padded to l tokens."""


def coordinated(queries: Sequence[Query], alpha: Alpha, beta: Beta, most: int = MOST_QUERIES) -> Plan:
    """Algorithm 1: mini-batches of each task by `beta`, then macro-batches of mini-batches by `alpha`. None
    holds more than `most` queries."""
    return _inter_task(_intra_task(queries, beta, most), alpha, most)


def alpha_only(queries: Sequence[Query], alpha: Alpha, most: int = MOST_QUERIES) -> Plan:
    """Macro-batches of single queries by `alpha`; the engine then slices each of them by task (section
    3.4.3)."""
    plan = _inter_task([(query,) for query in queries], alpha, most)
    return [_by_task(query for (query,) in macro) for macro in plan]


def beta_only(queries: Sequence[Query], beta: Beta, most: int = MOST_QUERIES) -> Plan:
    """Each mini-batch is a batch of its own."""
    return [(mini,) for mini in _intra_task(queries, beta, most)]


def fixed_size(queries: Sequence[Query], size: int) -> Plan:
    """Batches of `size` queries in the order in which they come, whatever their task and length."""
    return [_by_task(queries[start : start + size]) for start in range(0, len(queries), size)]


def batch_seconds(batch: MacroBatch, alpha: Alpha, beta: Beta) -> float:
    """Equation 2: the shared operators once, and the PET operators of each mini-batch."""
    count = sum(map(len, batch))
    return alpha(count, max(map(longest, batch))) + sum(
        beta(mini[0].kind, len(mini), longest(mini)) for mini in batch
    )


def plan_seconds(plan: Plan, alpha: Alpha, beta: Beta) -> float:
    """Equation 3: the batches one after the other."""
    return sum(batch_seconds(batch, alpha, beta) for batch in plan)


def choose_policy(lengths: Sequence[int], threshold: float) -> str:
    """Which policy section 6.4 takes for a queue: "coordinated" where the standard deviation of its lengths
    is at most `threshold` tokens, else "alpha-only"."""
    return "coordinated" if pstdev(lengths) <= threshold else "alpha-only"


def longest(mini: MiniBatch) -> int:
    """Tokens of the longest query."""
    return max(query.length for query in mini)


def _intra_task(queries: Iterable[Query], beta: Beta, most: int) -> list[MiniBatch]:
    """Step 1: the queries of each task in ascending length, split where `beta` sums to the least (equation
    4)."""
    minis = []
    for own in _by_task(queries):
        ordered = sorted(own, key=lambda query: query.length)

        def seconds(begin: int, end: int, ordered: Sequence[Query] = ordered) -> float:
            return beta(ordered[0].kind, end - begin, ordered[end - 1].length)

        minis += [tuple(ordered[begin:end]) for begin, end in best_split([1] * len(ordered), seconds, most)]
    return minis


def _inter_task(minis: Sequence[MiniBatch], alpha: Alpha, most: int) -> Plan:
    """Step 2: the mini-batches in ascending length, split where `alpha` sums to the least (equation 5)."""
    ordered = sorted(minis, key=longest)
    sizes, lengths = [len(mini) for mini in ordered], [longest(mini) for mini in ordered]
    before = [0]
    for size in sizes:
        before.append(before[-1] + size)

    def seconds(begin: int, end: int) -> float:
        return alpha(before[end] - before[begin], lengths[end - 1])

    return [tuple(ordered[begin:end]) for begin, end in best_split(sizes, seconds, most)]


def best_split(
    sizes: Sequence[int], seconds: Callable[[int, int], float], most: int
) -> list[tuple[int, int]]:
    """The bounds of consecutive parts whose `seconds` sum to the least, by dynamic programming. A part of
    several items holds no more than `most` in all; the first of equal splits is taken."""
    least, last_begin = [0.0], [0]
    for end in range(1, len(sizes) + 1):
        best, best_begin, held = float("inf"), end - 1, 0
        for begin in range(end - 1, -1, -1):
            held += sizes[begin]
            if held > most and begin < end - 1:
                break
            found = least[begin] + seconds(begin, end)
            if found < best:
                best, best_begin = found, begin
        least.append(best)
        last_begin.append(best_begin)
    bounds, end = [], len(sizes)
    while end:
        bounds.append((last_begin[end], end))
        end = last_begin[end]
    return bounds[::-1]


def _by_task(queries: Iterable[Query]) -> MacroBatch:
    """The queries of each task together, tasks and queries in the order in which they first come."""
    groups: dict[int, list[Query]] = {}
    for query in queries:
        groups.setdefault(query.task, []).append(query)
    return tuple(map(tuple, groups.values()))

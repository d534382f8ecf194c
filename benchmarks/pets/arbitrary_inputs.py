"""Batching policies on queries of different lengths (PetS, figure 12), by simulation over measured latencies,
beside the product's packed batches of the same queue, which are computed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from benchmarks import harness
from benchmarks.pets.coordinated_batching import (
    MOST_QUERIES,
    MacroBatch,
    Plan,
    Query,
    alpha_only,
    beta_only,
    coordinated,
    fixed_size,
    plan_seconds,
)
from benchmarks.pets.kinds import draw_kinds
from benchmarks.pets.latency_profile import LONGEST, Profile
from benchmarks.pets.upper_layers import Upper
from inference.engine.batcher import BatchLimits

MEAN: Final = 32
"""Tokens of a query."""
FIXED: Final = 32
"""Queries of a fixed batch, in the paper's own scripts and in the product."""
PAPER: Final = {"coordinated_vs_fixed": 1.52, "coordinated_vs_beta": 1.27, "coordinated_vs_alpha": 1.06}
"""Means of figure 12."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of the experiment. packed: the deviations at which the product's batches are computed."""

    queries: int = 1024
    tasks: tuple[int, ...] = (32, 64, 128)
    deviations: tuple[int, ...] = (1, 2, 4, 8)
    packed: tuple[int, ...] = (1, 8)


QUICK: Final = Size(queries=128, tasks=(32,), deviations=(1, 4, 8), packed=(8,))


def draw_queue(count: int, tasks: int, deviation: float, *, seed: int) -> list[Query]:
    """Queries of normally distributed lengths, each of a random task; each task has a random kind."""
    draw, kinds = np.random.default_rng(seed), draw_kinds(tasks, seed)
    lengths = np.clip(draw.normal(MEAN, deviation, count).astype(int), 1, LONGEST).tolist()
    asked = draw.integers(0, tasks, count).tolist()
    return [Query(task, kinds[task], length) for task, length in zip(asked, lengths, strict=True)]


def measure(upper: Upper, profile: Profile, size: Size) -> list[harness.Row]:
    """A row for each number of tasks and deviation: seconds of the queue by every policy."""
    rows = []
    for tasks in size.tasks:
        for deviation in size.deviations:
            queue = draw_queue(size.queries, tasks, deviation, seed=tasks + deviation)
            plan = coordinated(queue, profile.alpha, profile.beta)
            plans = {
                "fixed": fixed_size(queue, FIXED),
                "beta-only": beta_only(queue, profile.beta),
                "alpha-only": alpha_only(queue, profile.alpha),
                "coordinated": plan,
            }
            row: harness.Row = {"tasks": tasks, "deviation": deviation}
            row |= {
                f"{name} s": plan_seconds(found, profile.alpha, profile.beta) for name, found in plans.items()
            }
            packed = {
                "packed s": product_batches(queue),
                "packed, large s": product_batches(queue, MOST_QUERIES),
                "coordinated, packed s": plan,
            }
            if deviation in size.packed:
                row |= packed_seconds(upper, packed)
            else:
                row |= dict.fromkeys(packed, "")
            rows.append(row)
    return rows


def product_batches(queue: Sequence[Query], limit: int | None = None) -> Plan:
    """The queue as the engine takes it: batches of `limit` (None: its own) queries as they come, sorted by
    model and length."""
    limit = limit or BatchLimits().rows
    batches = [queue[start : start + limit] for start in range(0, len(queue), limit)]
    return [
        tuple((query,) for query in sorted(batch, key=lambda query: (query.task, query.length)))
        for batch in batches
    ]


def packed_seconds(upper: Upper, plans: Mapping[str, Plan]) -> dict[str, float]:
    """Computes the batches in packed form, each query with its PET; seconds of each plan. The plans take
    turns, so that what slows the machine down for a while slows all of them."""
    found = dict.fromkeys(plans, 0.0)
    turns = [(at / len(plan), name, batch) for name, plan in plans.items() for at, batch in enumerate(plan)]
    for _, name, batch in sorted(turns, key=lambda turn: turn[0]):
        found[name] += _batch_seconds(upper, batch)
    return found


def _batch_seconds(upper: Upper, batch: MacroBatch) -> float:
    queries = [query for mini in batch for query in mini]
    lengths = [query.length for query in queries]
    pets = upper.pets([(query.kind, query.task) for query in queries], lengths)
    return upper.packed_seconds(lengths, pets)


def figures(rows: Sequence[harness.Row]) -> dict[str, float]:
    """Means over the rows of times over that of the coordinated policy, and the threshold between it and
    alpha-only."""
    found = {
        "coordinated_vs_fixed": _mean_ratio(rows, "fixed s", "coordinated s"),
        "coordinated_vs_beta": _mean_ratio(rows, "beta-only s", "coordinated s"),
        "coordinated_vs_alpha": _mean_ratio(rows, "alpha-only s", "coordinated s"),
        "policy_threshold": threshold(rows),
    }
    packed = [row for row in rows if row["packed s"] != ""]
    if packed:
        found["packed_vs_coordinated"] = _mean_ratio(packed, "coordinated s", "packed s")
        found["packed_coordinated_vs_packed"] = _mean_ratio(packed, "packed s", "coordinated, packed s")
        found["packed_large_vs_packed"] = _mean_ratio(packed, "packed s", "packed, large s")
    return found


def threshold(rows: Sequence[harness.Row]) -> float:
    """The largest deviation up to which the coordinated policy takes no longer than alpha-only, in the mean
    over numbers of tasks; 0 if there is none."""
    found = 0.0
    for deviation in sorted({row["deviation"] for row in rows}):
        own = [row for row in rows if row["deviation"] == deviation]
        if _mean_ratio(own, "alpha-only s", "coordinated s") < 1:
            break
        found = float(deviation)
    return found


def _mean_ratio(rows: Sequence[harness.Row], over: str, under: str) -> float:
    return fmean(row[over] / row[under] for row in rows)

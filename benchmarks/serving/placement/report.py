"""The tables and figures of a simulated cluster."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import numpy as np

from benchmarks.harness import Row
from benchmarks.serving.placement.cluster import Outcome, Sample, Setup

RELEASABLE_S: Final = 60.0
"""A worker that is idle for so long could have been released."""
ROWS_OF_TIME: Final = 10

Outcomes = Mapping[str, Outcome]
"""By policy."""


def summary(outcomes: Outcomes, setup: Setup) -> list[Row]:
    """A row for each policy."""
    return [_row(name, outcome, setup) for name, outcome in outcomes.items()]


def _row(name: str, outcome: Outcome, setup: Setup) -> Row:
    return {
        "placed on": name,
        "released %": 100 * released_share(outcome, setup),
        "workers at most": max(_in_use(sample) for sample in outcome.samples),
        "rows a step": outcome.row_s / outcome.busy_s,
        "first token p50 s": float(np.percentile(outcome.waits, 50)),
        "p99 s": float(np.percentile(outcome.waits, 99)),
        "ms a token p50": 1000 * float(np.percentile(outcome.token_s, 50)),
        "p99 ms": 1000 * float(np.percentile(outcome.token_s, 99)),
        "migrated": outcome.moved,
        "recomputed %": 100 * outcome.recomputed / outcome.tokens,
        "model there %": 100 * outcome.resident / outcome.prompts,
    }


def released_share(outcome: Outcome, setup: Setup) -> float:
    """The share of the cluster's worker-hours without a worker, or with one that was idle for a minute."""
    idle = sum(seconds for seconds in outcome.idle if seconds >= RELEASABLE_S)
    return 1 - (outcome.held_s - idle) / (setup.workers * setup.seconds)


def over_time(outcomes: Outcomes, setup: Setup) -> list[Row]:
    """A row for each tenth of the time: what was offered and generated, and the workers in use."""
    first = next(iter(outcomes.values()))
    edges = np.linspace(0, setup.seconds, ROWS_OF_TIME + 1)
    rows: list[Row] = []
    for begin, end in pairwise(edges):
        seconds = end - begin
        asked = _between(first, begin, end)
        row: Row = {
            "minutes": f"{begin / 60:g} to {end / 60:g}",
            "requests/s": (asked[-1].requests - asked[0].requests) / seconds,
            "tokens/s": round((asked[-1].tokens - asked[0].tokens) / seconds),
        }
        for name, outcome in outcomes.items():
            samples = _between(outcome, begin, end)
            row[f"workers, {name}"] = float(np.mean([_in_use(sample) for sample in samples]))
        busy = [rows for sample in asked for rows in sample.rows.values() if rows]
        row["rows of a worker in use"] = float(np.mean(busy)) if busy else 0.0
        rows.append(row)
    return rows


def _between(outcome: Outcome, begin: float, end: float) -> list[Sample]:
    return [sample for sample in outcome.samples if begin <= sample.at <= end]


def _in_use(sample: Sample) -> int:
    return sum(rows > 0 for rows in sample.rows.values())


def figures(outcomes: Outcomes, setup: Setup) -> dict[str, float]:
    """By policy, the share of worker-hours that could be released; requests that got no whole answer."""
    released = {
        f"released_{name.replace(', ', '_').replace(' ', '_')}": released_share(outcome, setup)
        for name, outcome in outcomes.items()
    }
    requests = max(sample.requests for outcome in outcomes.values() for sample in outcome.samples)
    lost = sum(requests - len(outcome.waits) for outcome in outcomes.values())
    return {**released, "requests": float(requests), "lost": float(lost)}

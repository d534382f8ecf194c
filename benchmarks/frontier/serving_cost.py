"""What a text costs through the engine: processor time, and how long it waits. All ways take turns, so that
what slows the machine for a while slows all of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.frontier.engine import CascadeServer, DedicatedModel, Engine, Question
from benchmarks.serving.open_loop import Plain, Server, serve
from inference.cascade.dispatcher import AnswerPolicy
from inference.engine.batcher import BatchLimits
from inference.engine.rows import Row

DEDICATED, TABLE, FULL, DEFAULT = "dedicated", "table", "full", "default"
LOAD: Final = 0.6
"""Of what saturates the level FULL: every way is asked the same texts at the same moments."""
DEADLINE_S: Final = 30.0
APART_S: Final = 1e3
"""Between lone texts. Time in which nothing is to be done is skipped."""


@dataclass(frozen=True, slots=True)
class Effort:
    """texts: of each repeat. lone: of these, so many are also asked one by one."""

    texts: int = 512
    repeats: int = 5
    lone: int = 64


@dataclass(frozen=True, slots=True, eq=False)
class _Way:
    """What is asked, and of what."""

    rows: list[Row]
    server: Callable[[], Server]


def serving_cost(engine: Engine, asked: Sequence[Question], effort: Effort) -> dict[str, dict[str, Any]]:
    """By way {cpu_ms: of a text in each repeat, p50_ms, p95_ms, lone_ms, texts_per_s, escalated}.

    The way DEFAULT is the cascade as the model's profile serves it. The p50 and p95 are at LOAD; lone_ms is
    the mean time of a text that is alone. All texts are of one model, each tenant's its own copy of it.
    """
    ways = _ways(engine, asked)
    for way in ways.values():
        serve(way.server(), np.zeros(1), way.rows[:1], deadline_s=DEADLINE_S)
    found: dict[str, dict[str, list[float]]] = {name: {} for name in ways}
    names = list(ways)
    for repeat in range(effort.repeats):
        for name in np.roll(names, -repeat).tolist():
            _note(found[name], _saturated(ways[name]))
    capacity = median(found[FULL]["texts_per_s"])
    seconds = len(asked) / (LOAD * capacity)
    arrivals = np.sort(np.random.default_rng(0).uniform(0, seconds, len(asked)))
    apart = APART_S * np.arange(min(effort.lone, len(asked)), dtype=np.float64)
    for repeat in range(effort.repeats):
        for name in np.roll(names, -repeat).tolist():
            _note(found[name], _waits(ways[name], arrivals, apart))
    return {
        name: {key: values if key == "cpu_ms" else median(values) for key, values in one.items()}
        for name, one in found.items()
    }


def cascade_efficiency(cost: Mapping[str, Mapping[str, Any]]) -> float | None:
    """The cascade's saving over that which the shares and costs of the levels give: (T + e F) / C of the
    processor times of the table, of the level full and of the cascade, whose share e goes on. None where no
    text goes on, or all are computed at once."""
    table, full, own = (median(cost[way]["cpu_ms"]) for way in (TABLE, FULL, DEFAULT))
    escalated = cost[DEFAULT]["escalated"]
    return float((table + escalated * full) / own) if 0 < escalated < 1 else None


def _ways(engine: Engine, asked: Sequence[Question]) -> dict[str, _Way]:
    limits = BatchLimits()

    def product() -> Server:
        return CascadeServer(engine.executor, limits)

    full = engine.rows(asked, AnswerPolicy.FULL)
    dedicated = DedicatedModel(engine.root, engine.root.checkpoint_lower(), engine.folder_of(asked[0]))
    return {
        DEDICATED: _Way(full, lambda: Plain(dedicated, limits)),
        FULL: _Way(full, product),
        TABLE: _Way(engine.rows(asked, AnswerPolicy.TABLE), product),
        DEFAULT: _Way(engine.rows(asked, AnswerPolicy.CASCADE), product),
    }


def _saturated(way: _Way) -> dict[str, float]:
    """All texts wait from the start."""
    server, count = way.server(), len(way.rows)
    started, cpu = time.perf_counter(), time.process_time()
    serve(server, np.zeros(count), way.rows, deadline_s=np.inf)
    cpu_s, seconds = time.process_time() - cpu, time.perf_counter() - started
    gone_on = len(server.from_tables) if isinstance(server, CascadeServer) else 0
    return {"cpu_ms": 1000 * cpu_s / count, "texts_per_s": count / seconds, "escalated": gone_on / count}


def _waits(way: _Way, at: NDArray[np.float64], apart: NDArray[np.float64]) -> dict[str, float]:
    """Under load, and one by one. Who is not answered in time has waited for the deadline."""
    loaded = serve(way.server(), at, way.rows[: len(at)], deadline_s=DEADLINE_S).clip(max=DEADLINE_S)
    lone = serve(way.server(), apart, way.rows[: len(apart)], deadline_s=DEADLINE_S).clip(max=DEADLINE_S)
    p50, p95 = np.percentile(loaded, [50, 95]).tolist()
    return {"p50_ms": 1000 * p50, "p95_ms": 1000 * p95, "lone_ms": 1000 * float(lone.mean())}


def _note(into: dict[str, list[float]], found: Mapping[str, float]) -> None:
    for key, value in found.items():
        into.setdefault(key, []).append(value)

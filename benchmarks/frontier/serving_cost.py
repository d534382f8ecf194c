"""Processor time of a text through the engine. All ways take turns, so that what slows the machine for a
while slows all of them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np

from benchmarks.frontier.engine import CascadeServer, Engine, Question
from benchmarks.serving.open_loop import serve
from inference.cascade.dispatcher import AnswerPolicy
from inference.engine.batcher import BatchLimits
from inference.engine.rows import Row

TABLE, FULL, DEFAULT = "table", "full", "default"
POLICIES: Final = {
    TABLE: AnswerPolicy.TABLE,
    FULL: AnswerPolicy.FULL,
    DEFAULT: AnswerPolicy.CASCADE,
}
"""By way to answer. The cascade is as the model's profile serves it."""


@dataclass(frozen=True, slots=True)
class Effort:
    """texts: of each repeat."""

    texts: int = 512
    repeats: int = 5


def serving_cost(engine: Engine, asked: Sequence[Question], effort: Effort) -> dict[str, dict[str, Any]]:
    """By way {cpu_ms: of a text in each repeat, escalated: the share that goes on}, if all texts wait from
    the start. They are of one model, each tenant's its own copy of it."""
    rows = {name: engine.rows(asked, policy) for name, policy in POLICIES.items()}
    for of_way in rows.values():
        _answer(engine, of_way[:1])
    found: dict[str, dict[str, Any]] = {name: {"cpu_ms": []} for name in rows}
    for repeat in range(effort.repeats):
        for name in np.roll(list(rows), -repeat).tolist():
            started = time.process_time()
            server = _answer(engine, rows[name])
            found[name]["cpu_ms"].append(1000 * (time.process_time() - started) / len(asked))
            found[name]["escalated"] = len(server.from_tables) / len(asked)
    return found


def cascade_efficiency(cost: Mapping[str, Mapping[str, Any]]) -> float | None:
    """The cascade's saving over that which the shares and costs of the levels give: (T + e F) / C of the
    processor times of the table, of the level full and of the cascade, whose share e goes on. None where no
    text goes on."""
    table, full, own = (median(cost[way]["cpu_ms"]) for way in (TABLE, FULL, DEFAULT))
    escalated = cost[DEFAULT]["escalated"]
    return float((table + escalated * full) / own) if escalated else None


def _answer(engine: Engine, rows: list[Row]) -> CascadeServer:
    server = CascadeServer(engine.executor, BatchLimits())
    serve(server, np.zeros(len(rows)), rows, deadline_s=np.inf)
    return server

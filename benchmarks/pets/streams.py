"""PET operators on several streams (PetS, figure 11): SIMULATED, from measured latencies and the machine's
roof by the model of `operator_streams`."""

from collections.abc import Sequence
from typing import Final

from benchmarks import harness
from benchmarks.pets.kinds import draw_kinds, work
from benchmarks.pets.latency_profile import Profile
from benchmarks.pets.operator_streams import Operator, in_turn, makespan, schedule
from benchmarks.pets.upper_layers import Upper
from benchmarks.serving.sgmv import Roof

QUERIES: Final = 128
"""Of a batch, as in section 6.3.3."""
TASKS: Final = (32, 64, 128)
LENGTHS: Final = (4, 8, 16, 32, 64)
STREAMS: Final = (1, 2, 4, 8, 16, 32)
JOINS_A_LAYER: Final = 4
"""Query, key and value; output; expand; contract: each needs what the streams before it made."""
PAPER: Final = 0.15
"""The most that streams take off a batch's latency with 32 tasks."""
IN_TURN: Final = f"in turn, {STREAMS[-1]}, ms"


def operators(upper: Upper, profile: Profile, tasks: int, length: int) -> list[Operator]:
    """One for each task of a batch of `QUERIES` queries of one length."""
    count = QUERIES // tasks
    found = []
    for kind in draw_kinds(tasks, seed=tasks):
        asked = work(kind, upper.shape, count * length, upper.dtype.itemsize)
        found.append(Operator(asked.flop, asked.bytes, profile.beta(kind, count, length)))
    return [operator for operator in found if operator.seconds > 0]


def simulate(upper: Upper, profile: Profile, roof: Roof) -> list[harness.Row]:
    """A row for each number of tasks and length: milliseconds of a batch by the number of streams."""
    joins = JOINS_A_LAYER * upper.shape.layers
    rows = []
    for tasks in TASKS:
        for length in LENGTHS:
            asked, shared = operators(upper, profile, tasks, length), profile.alpha(QUERIES, length)
            row: harness.Row = {"tasks": tasks, "tokens": length}
            for streams in STREAMS:
                seconds = shared + makespan(schedule(asked, streams), roof, joins=joins)
                row[column(streams)] = 1000 * seconds
            row[IN_TURN] = 1000 * (shared + makespan(in_turn(asked, STREAMS[-1]), roof, joins=joins))
            rows.append(row)
    return rows


def column(streams: int) -> str:
    """Of the table."""
    return f"{streams} streams, ms" if streams > 1 else "1 stream, ms"


def figures(rows: Sequence[harness.Row]) -> dict[str, float]:
    """The most that the best number of streams takes off a batch with 32 tasks, and the shortest length for
    which 32 streams beat two with every number of tasks."""
    saved = [
        1 - min(row[column(streams)] for streams in STREAMS) / row[column(1)]
        for row in rows
        if row["tasks"] == TASKS[0]
    ]
    few, many = column(2), column(STREAMS[-1])
    won = [
        length for length in LENGTHS if all(row[many] < row[few] for row in rows if row["tokens"] >= length)
    ]
    return {"streams_saving_simulated": max(saved), "streams_threshold_simulated": float(min(won, default=0))}

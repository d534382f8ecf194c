"""Reading a trace as its viewers do: Chrome's trace event format."""

import json
from itertools import pairwise
from typing import Any


def lanes_of(payload: bytes | str, *, process: str) -> dict[str, list[dict[str, Any]]]:
    """The complete events by the name of their thread, after a check of everything that viewers rely on."""
    events = json.loads(payload)["traceEvents"]
    assert {event["ph"] for event in events} <= {"M", "X"}
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == [process]
    assert len({event["pid"] for event in events}) == 1
    # Viewers take 0 for the idle process and the idle thread.
    assert all(
        isinstance(event[name], int) and event[name] > 0 for event in events for name in ("pid", "tid")
    )
    complete = [event for event in events if event["ph"] == "X"]
    for event in complete:
        assert isinstance(event["name"], str)
        assert isinstance(event["cat"], str)
        assert event["ts"] >= 0 <= event["dur"]
    stages = {name: [event for event in complete if event["tid"] == tid] for tid, name in names.items()}
    assert sum(map(len, stages.values())) == len(complete)
    for stage in stages.values():
        _assert_nested(stage)
    return stages


def _assert_nested(events: list[dict[str, Any]]) -> None:
    """On one thread a piece of work lies within another, or beside it."""
    in_order = sorted(events, key=lambda event: (event["ts"], -event["dur"]))
    for one, after in pairwise(in_order):
        end = one["ts"] + one["dur"]
        assert after["ts"] >= end or after["ts"] + after["dur"] <= end, (one, after)

"""Requests come when they come: what that does to a server that keeps up, and to one that does not."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.serving.open_loop import Clock, serve
from inference.cascade.dispatcher import Level
from inference.engine.rows import ModelIdentity, Row

LATE = np.inf


class Hand(Clock):
    """A clock that only moves when somebody moves it."""

    def __init__(self) -> None:
        self.moment = 0.0

    def now(self) -> float:
        return self.moment

    def skip_to(self, moment: float) -> None:
        self.moment = max(self.moment, moment)


class Slow:
    """Takes a second for a batch of up to two rows."""

    def __init__(self, clock: Hand, *, looks_ahead: bool = False) -> None:
        self.looks_ahead = looks_ahead
        self.done: list[tuple[str, list[str]]] = []
        self._clock = clock

    def choose(self, lengths: Sequence[int]) -> list[int]:
        return list(range(min(2, len(lengths))))

    def begin(self, rows: list[Row]) -> list[Row]:
        self.done.append(("begun", [row.key for row in rows]))
        return rows

    def finish(self, begun: Any) -> Mapping[int, Row]:
        self.done.append(("finished", [row.key for row in begun]))
        self._clock.moment += 1.0
        return {}


def rows(count: int) -> list[Row]:
    ids, model = np.zeros(4, dtype=np.int64), ModelIdentity("acme", "mood", 1, "d")
    return [Row(str(at), ids, ids, model, "chain", Level.TABLE, len(ids)) for at in range(count)]


def waits(at: Sequence[float], *, deadline_s: float = 100.0, looks_ahead: bool = False) -> list[float]:
    clock = Hand()
    server = Slow(clock, looks_ahead=looks_ahead)
    return list(serve(server, np.array(at), rows(len(at)), deadline_s=deadline_s, clock=clock))


def test_a_server_that_keeps_up_answers_each_request_after_its_own_time() -> None:
    assert waits([0.0, 10.0, 20.0]) == [1.0, 1.0, 1.0]


def test_requests_do_not_wait_for_answers_so_a_slow_server_falls_behind() -> None:
    assert waits([0.0, 0.5, 0.5, 0.5, 0.5]) == [1.0, 1.5, 1.5, 2.5, 2.5]


def test_who_has_waited_too_long_is_dropped_and_takes_nobodys_time() -> None:
    assert waits([0.0, 0.0, 0.0, 0.0, 1.0], deadline_s=1.0) == [1.0, 1.0, LATE, LATE, 1.0]


def test_a_server_that_looks_ahead_begins_a_batch_before_it_finishes_the_one_before() -> None:
    clock = Hand()
    server = Slow(clock, looks_ahead=True)
    found = serve(server, np.zeros(4), rows(4), deadline_s=9.0, clock=clock)
    one, other = ["0", "1"], ["2", "3"]
    assert server.done == [("begun", one), ("begun", other), ("finished", one), ("finished", other)]
    assert found.tolist() == [1.0, 1.0, 2.0, 2.0]


class Escalating(Slow):
    """Computes the text "0" once more, at the level FULL."""

    def finish(self, begun: Any) -> Mapping[int, Row]:
        super().finish(begun)
        return {
            place: replace(row, level=Level.FULL)
            for place, row in enumerate(begun)
            if row.key == "0" and row.level is Level.TABLE
        }


def test_a_text_that_goes_on_joins_the_next_batch_and_has_waited_since_it_came() -> None:
    clock = Hand()
    server = Escalating(clock)
    found = serve(server, np.zeros(4), rows(4), deadline_s=9.0, clock=clock)
    assert [who for what, who in server.done if what == "begun"] == [["0", "1"], ["0", "2"], ["3"]]
    assert found.tolist() == [2.0, 1.0, 2.0, 3.0]

"""Rows that wait for a step."""

from collections.abc import Iterable
from dataclasses import dataclass

from inference.engine.batcher import BatchLimits, next_batch
from inference.engine.executor import Executor
from inference.engine.rows import Row
from inference.serving.ticket import Ticket


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """One row and the request it belongs to."""

    ticket: Ticket
    row: Row


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows for one step of one root's executor."""

    executor: Executor
    waiting: list[Waiting]


class Backlog:
    """Rows in order of arrival."""

    def __init__(self, tickets: Iterable[Ticket] = ()) -> None:
        self._waiting: list[Waiting] = []
        for ticket in tickets:
            self.add(ticket)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, ticket: Ticket) -> None:
        """Append the ticket's rows."""
        self._waiting.extend(Waiting(ticket, row) for row in ticket.rows)

    def drop_done(self) -> None:
        """Forget the remaining rows of requests that have their answer already."""
        self._waiting = [waiting for waiting in self._waiting if not waiting.ticket.done]

    def drop_expired(self, now: float) -> list[Ticket]:
        """Take out and return the requests whose deadline has passed."""
        expired = {id(w.ticket): w.ticket for w in self._waiting if w.ticket.expired(now)}
        self._waiting = [waiting for waiting in self._waiting if id(waiting.ticket) not in expired]
        return list(expired.values())

    def take(self, limits: BatchLimits) -> Batch | None:
        """Take out the next batch: the oldest row, and others of the same root."""
        if not self._waiting:
            return None
        executor = self._waiting[0].ticket.route.executor
        same = [at for at, waiting in enumerate(self._waiting) if waiting.ticket.route.executor is executor]
        chosen = [same[at] for at in next_batch([len(self._waiting[at].row) for at in same], limits)]
        batch = Batch(executor, [self._waiting[at] for at in chosen])
        for at in reversed(chosen):
            del self._waiting[at]
        return batch

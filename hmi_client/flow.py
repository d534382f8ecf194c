"""What an operation asks for while it runs: a call, a pause, or to hand something out.

An operation is a generator of these, a *flow*, that talks to no server itself. So it is written once, and
both clients carry it out: one blocks, the other awaits.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import httpx

T = TypeVar("T")

Json = Any
"""What JSON can say."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request below ``/api/v1/``; answered by its response, or by a typed error.

    ``repeatable``: sending it twice does no more than sending it once, so it may be sent again after a lost
    connection. ``into``: a file that gets the body of a good answer, piece by piece.
    """

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    json: Json = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    timeout_s: float | None = None
    into: Path | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Go on after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """Hand an item to whoever iterates over the operation."""

    item: T


Step = Call | Pause | Item[Any]
Flow = Generator[Step, Any, T]


def ask(call: Call) -> Flow[httpx.Response]:
    """The response to a call."""
    response: httpx.Response = yield call
    return response


class FlowRun(Generic[T]):
    """A flow on its way: iterates over its steps; ``answer`` or ``failure`` is what the last one came to.

    ``result`` is there once the iteration has ended.
    """

    result: T

    def __init__(self, flow: Flow[T]) -> None:
        self._flow = flow
        self.answer: Any = None
        self.failure: Exception | None = None

    def __iter__(self) -> "FlowRun[T]":
        return self

    def __next__(self) -> Step:
        answer, failure = self.answer, self.failure
        self.answer = self.failure = None
        try:
            return self._flow.send(answer) if failure is None else self._flow.throw(failure)
        except StopIteration as end:
            self.result = end.value
        raise StopIteration

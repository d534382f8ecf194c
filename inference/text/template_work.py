"""The work that rendering a template costs, counted in characters that could be copied instead."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.utils import Namespace

STEP_COST: Final = 64
"""Of an iteration or a call."""
VALUE_COST: Final = 32
"""Of looking at a value, besides its length."""


class WorkExceeded(Exception):
    """The template does more than it may."""


class _Work:
    """What a rendering may still do."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def spend(self, cost: int) -> None:
        self.left -= max(cost, 0)  # a template may ask for less than nothing
        if self.left < 0:
            raise WorkExceeded


_work: ContextVar[_Work] = ContextVar("_work")


@contextmanager
def limited_work(limit: int) -> Iterator[None]:
    """In here templates may do so much work together: as much as copying so many characters. Beyond it they
    raise WorkExceeded."""
    token = _work.set(_Work(limit))
    try:
        yield
    finally:
        _work.reset(token)


def spend(cost: int) -> None:
    """Raises WorkExceeded when there is not so much left."""
    _work.get().spend(cost)


def length(value: Any) -> int:
    """Of a text, list, tuple or mapping; 0 of anything else."""
    return len(value) if isinstance(value, str | list | tuple | dict) else 0


def charge(value: Any) -> Any:
    """The value, after spending what copying it as a text costs. Raises SecurityError for a namespace, of
    which that is not known."""
    pending = [value]
    while pending:
        one = pending.pop()
        spend(VALUE_COST + length(one))
        if isinstance(one, Namespace):
            raise SecurityError("a namespace is not text")
        if isinstance(one, range):
            spend(len(one))
        elif isinstance(one, Mapping):
            pending += [*one.keys(), *one.values()]
        elif isinstance(one, Iterable) and not isinstance(one, str | Iterator | LoopContext):
            pending += one
    return value


def iterate(values: Iterable[Any]) -> Iterator[Any]:
    """The values; each is a step."""
    for value in values:
        spend(STEP_COST)
        yield value

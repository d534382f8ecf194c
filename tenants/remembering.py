"""What was asked a moment ago, and need not be asked again."""

from collections.abc import Callable
from typing import Final, TypeVar, cast

from django.core.cache import BaseCache, caches

Answer = TypeVar("Answer")

MOMENTS: Final = "moments"
"""The cache of a process's own, apart from the one in which others keep what must not be crowded out."""


def moments() -> BaseCache:
    """The cache."""
    return caches[MOMENTS]


def remembered(name: str, ask: Callable[[], Answer], seconds: float) -> Answer:
    """What ``ask`` says now, or said to this process under the same name so many seconds ago at most. What it
    raised is not remembered."""
    return cast("Answer", moments().get_or_set(name, ask, seconds))

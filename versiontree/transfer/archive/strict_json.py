"""JSON of strangers: bounded in size, depth and numbers, and nothing in it that PostgreSQL cannot store."""

import json
from math import isfinite
from typing import Any, Final, NoReturn

from versiontree.transfer.archive.layout import refused

MAX_BYTES: Final = 4 * 1024**2
DEEPEST: Final = 24
MAX_VALUES: Final = 600_000
"""An empty object takes two bytes in the file and a hundred in memory."""
LARGEST: Final = 2**63
"""What pages calculate with becomes a float now and then; nobody counts further."""


def object_of(content: bytes, name: str) -> dict[str, Any]:
    """The JSON object; ``invalid_archive`` naming the file when it is none, or holds what nobody writes."""
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise refused(f"{name} holds more than {MAX_VALUES:,} values.", limit=MAX_VALUES)
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
        _look_into(value)
    except (ValueError, RecursionError) as error:
        raise refused(f"{name} is not JSON that can be used: {error}.") from error
    if not isinstance(value, dict):
        raise refused(f"{name} is not a JSON object.")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _look_into(value: Any) -> None:
    waiting = [(value, 1)]
    while waiting:
        one, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        if isinstance(one, dict):
            waiting += [(part, depth + 1) for pair in one.items() for part in pair]
        elif isinstance(one, list):
            waiting += [(part, depth + 1) for part in one]
        elif isinstance(one, str):
            one.encode("utf-8")  # half of a surrogate pair is a ValueError
            if "\0" in one:
                raise ValueError("a text holds a NUL character")
        elif isinstance(one, int | float) and not _is_usual(one):
            raise ValueError("a number is too large")


def _is_usual(number: float) -> bool:
    return isfinite(number) if isinstance(number, float) else -LARGEST <= number < LARGEST

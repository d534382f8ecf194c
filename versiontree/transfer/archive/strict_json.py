"""Parse untrusted JSON: limited in size, depth and numbers, and only what PostgreSQL can store."""

import json
from math import isfinite
from typing import Any, Final, NoReturn

from tenants.base.unique_keys import unique_keys
from versiontree.transfer.archive.layout import invalid_archive

MAX_BYTES: Final = 4 * 1024**2
MAX_DEPTH: Final = 24
MAX_VALUES: Final = 600_000
"""An empty object takes two bytes in the file and a hundred in memory."""
MAX_NUMBER: Final = 2**63
"""Integers beyond this do not fit PostgreSQL's bigint."""


def json_object(content: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object. Raises ``invalid_archive``, naming the file, if it is invalid or over a limit."""
    if sum(map(content.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise invalid_archive(f"{name} holds more than {MAX_VALUES:,} values.", limit=MAX_VALUES)
    try:
        value = json.loads(
            content.decode("utf-8"), object_pairs_hook=unique_keys, parse_constant=_no_constant
        )
        _check_values(value)
    except (ValueError, RecursionError) as error:
        raise invalid_archive(f"{name} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise invalid_archive(f"{name} is not a JSON object.")
    return value


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _check_values(value: Any) -> None:
    waiting = [(value, 1)]
    while waiting:
        one, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        if isinstance(one, dict):
            waiting += [(part, depth + 1) for pair in one.items() for part in pair]
        elif isinstance(one, list):
            waiting += [(part, depth + 1) for part in one]
        elif isinstance(one, str):
            one.encode("utf-8")  # half of a surrogate pair is a ValueError
            if "\0" in one:
                raise ValueError("a text holds a NUL character")
        elif isinstance(one, int | float) and not _is_in_range(one):
            raise ValueError("a number is too large")


def _is_in_range(number: float) -> bool:
    return isfinite(number) if isinstance(number, float) else -MAX_NUMBER <= number < MAX_NUMBER

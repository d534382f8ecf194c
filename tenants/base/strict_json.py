"""Untrusted JSON: strictly UTF-8 and JSON, limited in values, depth and numbers.

Keys of an object occur once: of two values for one key, nobody can know which one is meant.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from math import isinf
from typing import Any, Final, NoReturn

from tenants.base.errors import ErrorCode, HmiError

MAX_DEPTH: Final = 64
"""How many lists and objects may stand in each other."""
MAX_VALUES: Final = 100_000
"""Texts, numbers, lists, objects and so on, at any depth."""
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1
"""Of whole numbers, as the database and the messages to workers hold them."""
OUT_OF_RANGE: Final = "This number is too large. Whole numbers are from -2^63 to 2^63 - 1."
MAX_KEY_SHOWN: Final = 60
_PIECE_BYTES: Final = 64 * 1024


class DuplicateKeyError(ValueError):
    """The ``key``, shortened, occurs twice in a JSON object."""

    def __init__(self, key: str) -> None:
        self.key = key[:MAX_KEY_SHOWN]
        super().__init__(f"the key {self.key!r} occurs twice in one object")


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs: an ``object_pairs_hook`` for ``json``. Raises ``DuplicateKeyError``."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DuplicateKeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _ConstantError(name)


class _ConstantError(ValueError):
    """NaN or Infinity."""


class _OutOfRangeError(ValueError):
    """A number that no field takes."""


def _is_out_of_range(number: object) -> bool:
    if isinstance(number, float):
        return isinf(number)
    return isinstance(number, int) and not MIN_INTEGER <= number <= MAX_INTEGER


def _in_range(parse: Callable[[str], int | float]) -> Callable[[str], int | float]:
    """For the decoder, which calls it in Python: between the numbers other threads run."""

    def parse_in_range(digits: str) -> int | float:
        if _is_out_of_range(number := parse(digits)):
            raise _OutOfRangeError
        return number

    return parse_in_range


_DECODER: Final = json.JSONDecoder(
    parse_constant=_refuse_constant,
    object_pairs_hook=unique_keys,
    parse_int=_in_range(int),
    parse_float=_in_range(float),
)


def parse_json(
    raw: bytes, *, what: str = "The body", max_values: int = MAX_VALUES, max_depth: int = MAX_DEPTH
) -> object:
    """The value that `raw` spells, or `invalid_encoding` or `invalid_json` saying where it breaks. Raises
    `invalid_field` for a number beyond 64 bits, and `body_too_large` for more than `max_values` values
    before it makes them: each takes up to a hundred times the memory of the two or three bytes that spell
    it. The messages call `raw` by `what`."""
    _check_values(raw, what, max_values)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{what} is not valid UTF-8 (byte {error.start})."
        raise HmiError(ErrorCode.INVALID_ENCODING, message, details={"byte": error.start}) from None
    try:
        value: object = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        message = f"{what} is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        details = {"line": error.lineno, "column": error.colno}
        raise HmiError(ErrorCode.INVALID_JSON, message, details=details) from None
    except _ConstantError as error:
        message = f"{what} is not valid JSON: {error} is not a JSON number."
        raise HmiError(ErrorCode.INVALID_JSON, message) from None
    except _OutOfRangeError:
        raise _out_of_range(text) from None
    except DuplicateKeyError as error:
        message = f"The key {error.key!a} occurs twice in one object."
        raise HmiError(ErrorCode.INVALID_JSON, message) from None
    except ValueError:
        message = f"{what} has a number of more than {sys.get_int_max_str_digits():,} digits."
        raise HmiError(ErrorCode.INVALID_JSON, message) from None
    except RecursionError:
        raise _too_deep(what, max_depth) from None
    if raw.count(b"[") + raw.count(b"{") > max_depth and _is_deep(value, max_depth):
        raise _too_deep(what, max_depth)
    return value


def _out_of_range(text: str) -> HmiError:
    """The error of a JSON text with a number out of range. ``param`` is the path of the first one."""
    with suppress(ValueError, RecursionError):  # what else is wrong with it is not told
        stack: list[tuple[str, object]] = [("", json.loads(text))]
        while stack:
            path, value = stack.pop()
            if _is_out_of_range(value):
                return HmiError(ErrorCode.INVALID_FIELD, OUT_OF_RANGE, param=path or None)
            inner = value.items() if isinstance(value, dict) else enumerate(_within(value))
            stack += [(f"{path}.{key}" if path else str(key), each) for key, each in inner]
    return HmiError(ErrorCode.INVALID_FIELD, OUT_OF_RANGE)


def _check_values(raw: bytes, what: str, max_values: int) -> None:
    """Raises `body_too_large` for too many values, told by the marks that part them outside of texts: as soon
    as there are too many, and without keeping other threads waiting."""
    if len(raw) <= max_values:
        return
    values = quotes = at = 0
    while at < len(raw):
        piece = raw[at : at + _PIECE_BYTES]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # an escape stays in one piece
            piece = raw[at : at + _PIECE_BYTES + 1]
        parts = piece.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        outside = parts[quotes % 2 :: 2]
        values += sum(part.count(b",") + part.count(b"[") + part.count(b"{") for part in outside)
        quotes += len(parts) - 1
        # A value is at most one text, with another one as its key; each has two quotes.
        if values > max_values or quotes > 4 * max_values:
            message = f"{what} has more than {max_values:,} values."
            raise HmiError(ErrorCode.BODY_TOO_LARGE, message, details={"max_values": max_values})
        at += len(piece)


def _is_deep(value: object, max_depth: int) -> bool:
    level = [value]
    for _ in range(max_depth + 1):
        level = [inner for outer in level for inner in _within(outer) if isinstance(inner, list | dict)]
    return bool(level)


def _within(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep(what: str, max_depth: int) -> HmiError:
    message = f"{what} is nested too deeply: at most {max_depth} levels are allowed."
    return HmiError(ErrorCode.INVALID_JSON, message, details={"max_depth": max_depth})

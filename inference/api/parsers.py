"""Reads the bodies of infer requests: strict UTF-8 and JSON, of bounded size, few large ones at a time."""

import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from math import isinf
from typing import IO, Any, Final, NoReturn

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.parsers import BaseParser

from inference.api.pending_response import when_complete
from inference.api.validation import check_body_size, invalid
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.unique_keys import DuplicateKeyError, unique_keys
from tenants.base.upload_concurrency import release_database

DEEPEST: Final = 64
"""How many lists and objects may stand in each other."""
MOST_VALUES: Final = 100_000
"""Of one body: texts, numbers, lists, objects and so on, at any depth."""
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**63 - 1
"""Of whole numbers, as the database and the messages to workers hold them."""
OUT_OF_RANGE: Final = "This number is too large. Whole numbers are from -2^63 to 2^63 - 1."
_PIECE_BYTES: Final = 64 * 1024


def _refuse_constant(name: str) -> NoReturn:
    raise HmiError(ErrorCode.INVALID_JSON, f"The body is not valid JSON: {name} is not a JSON number.")


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


def read_json(stream: IO[bytes], *, most_bytes: int | None = None) -> object:
    """`parse_json` of the stream, of which at most `most_bytes` are read, whatever the headers claim; by
    default what one infer request may have. Raises `body_too_large`, and `queue_full` while other large
    bodies are in progress."""
    limit = settings.HMI_MAX_BODY_BYTES if most_bytes is None else most_bytes
    raw = stream.read(limit + 1)
    check_body_size(len(raw), limit=limit)
    hold(len(raw))
    return parse_json(raw)


def parse_json(raw: bytes) -> object:
    """The value that `raw` spells, or `invalid_encoding` or `invalid_json` saying where it breaks. Raises
    `invalid_field` for a number beyond 64 bits, and `body_too_large` for more than `MOST_VALUES` values
    before it makes them: each takes up to a hundred times the memory of the two or three bytes that spell
    it."""
    _check_values(raw)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"The body is not valid UTF-8 (byte {error.start})."
        raise HmiError(ErrorCode.INVALID_ENCODING, message, details={"byte": error.start}) from None
    try:
        value: object = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        message = f"The body is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        details = {"line": error.lineno, "column": error.colno}
        raise HmiError(ErrorCode.INVALID_JSON, message, details=details) from None
    except _OutOfRangeError:
        raise _out_of_range(text) from None
    except DuplicateKeyError as error:
        message = f"The key {error.key!a} occurs twice in one object."
        raise HmiError(ErrorCode.INVALID_JSON, message) from None
    except ValueError:
        message = f"The body has a number of more than {sys.get_int_max_str_digits():,} digits."
        raise HmiError(ErrorCode.INVALID_JSON, message) from None
    except RecursionError:
        raise _too_deep() from None
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _is_deep(value):
        raise _too_deep()
    return value


def _out_of_range(text: str) -> HmiError:
    """The error of a JSON text with a number out of range. ``param`` is the path of the first one."""
    with suppress(ValueError, RecursionError):  # other faults of the text are not reported
        stack: list[tuple[str, object]] = [("", json.loads(text))]
        while stack:
            path, value = stack.pop()
            if _is_out_of_range(value):
                return invalid(path or None, OUT_OF_RANGE)
            inner = value.items() if isinstance(value, dict) else enumerate(_within(value))
            stack += [(f"{path}.{key}" if path else str(key), each) for key, each in inner]
    return invalid(None, OUT_OF_RANGE)


def _check_values(raw: bytes) -> None:
    """Raises `body_too_large` for too many values, told by the marks that part them outside of texts: as soon
    as there are too many, and without keeping other threads waiting."""
    if len(raw) <= MOST_VALUES:
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
        if values > MOST_VALUES or quotes > 4 * MOST_VALUES:
            message = f"The body has more than {MOST_VALUES:,} values."
            raise HmiError(ErrorCode.BODY_TOO_LARGE, message, details={"max_values": MOST_VALUES})
        at += len(piece)


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [inner for outer in level for inner in _within(outer) if isinstance(inner, list | dict)]
    return bool(level)


def _within(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep() -> HmiError:
    message = f"The body is nested too deeply: at most {DEEPEST} levels are allowed."
    return HmiError(ErrorCode.INVALID_JSON, message, details={"max_depth": DEEPEST})


class InferBodyParser(BaseParser):
    """Takes the body as JSON whatever its content type says: `curl -d` sends a form's."""

    media_type = "*/*"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The value that the body spells. Whoever sends it slowly holds no connection to the database."""
        release_database()
        return read_json(stream)


LARGEST_AT_ONCE: Final = 4
UNCOUNTED_BYTES: Final = 64 * 1024
"""A body up to this size does not count: with the capacity of the queue all of them need 256 MiB."""
RETRY_AFTER_S: Final = 1


class _InProgress:
    def __init__(self) -> None:
        self._lock, self._bytes = threading.Lock(), 0

    def take(self, size: int) -> bool:
        """Whether so many bytes more are allowed; then they count."""
        with self._lock:
            if self._bytes + size > most_bytes():
                return False
            self._bytes += size
            return True

    def give_back(self, size: int) -> None:
        """They count no longer."""
        with self._lock:
            self._bytes -= size


_in_progress: Final = _InProgress()
_of_request: ContextVar[list[int] | None] = ContextVar("large_bodies", default=None)


def most_bytes() -> int:
    """How many bytes large bodies may have together: four of the largest."""
    return LARGEST_AT_ONCE * int(settings.HMI_MAX_BODY_BYTES)


def hold(size: int) -> None:
    """Count a body of so many bytes until the request ends, unless it is small. Raises ``queue_full`` while
    all are taken."""
    held = _of_request.get()
    if size <= UNCOUNTED_BYTES or held is None:
        return
    if not _in_progress.take(size):
        message = "Too many large requests are in progress; send this one in a moment."
        raise HmiError(
            ErrorCode.QUEUE_FULL, message, details={"max_bytes": most_bytes()}, retry_after=RETRY_AFTER_S
        )
    held.append(size)


class LargeBodies:
    """Middleware: what a request holds counts until it is answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        held: list[int] = []
        token = _of_request.set(held)
        try:
            response = self._get_response(request)
        except BaseException:
            _in_progress.give_back(sum(held))
            raise
        finally:
            _of_request.reset(token)
        when_complete(response, lambda _: _in_progress.give_back(sum(held)))
        return response

"""Reads the bodies of infer requests: JSON of bounded size, few large ones at a time."""

import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import IO, Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from rest_framework.parsers import BaseParser

from inference.api.pending_response import when_complete
from inference.api.validation import check_body_size
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.strict_json import parse_json
from tenants.base.upload_concurrency import release_database

LARGEST_AT_ONCE: Final = 4
UNCOUNTED_BYTES: Final = 64 * 1024
"""A body up to this size does not count: with the capacity of the queue all of them need 256 MiB."""
RETRY_AFTER_S: Final = 1


def read_json(stream: IO[bytes], *, most_bytes: int | None = None) -> object:
    """`parse_json` of the stream, of which at most `most_bytes` are read, whatever the headers claim; by
    default what one infer request may have. Raises `body_too_large`, and `queue_full` while other large
    bodies are in progress."""
    limit = settings.HMI_MAX_BODY_BYTES if most_bytes is None else most_bytes
    raw = stream.read(limit + 1)
    check_body_size(len(raw), limit=limit)
    hold(len(raw))
    return parse_json(raw)


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

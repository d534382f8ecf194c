"""Receiving a request's body on the event loop, before a view runs.

No thread waits for a slow client, and no view runs on a truncated body. Bodies beyond SMALL_BODY_BYTES are
not received here: first the client must have a permit (see ``body_limits``).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from tenants.base.client_address import forwarded_address, rate_limit_network
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import RETRY_AFTER_S, SMALL_BODY_BYTES, ConcurrencyLimit

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Headers = Iterable[tuple[bytes, bytes]]

BODY: Final = "hmi.body"
"""The key of an ASGI scope for a body that was received already."""
DISCONNECT: Final = "http.disconnect"

MAX_LENGTH_DIGITS: Final = 18
"""Of ``Content-Length``."""
BODY_TIMEOUT_S: Final = 60.0
MIN_BYTES_PER_TIMEOUT: Final = 240 * 1024
"""Bytes that reset the timeout: at least 4 KiB a second must arrive."""

SLOW_AFTER_S: Final = 2.0
"""A body that takes longer counts as slow."""
MAX_SLOW_BODIES_PER_SENDER: Final = 16
MAX_SLOW_BODIES: Final = 128
MAX_LARGE_BODIES_PER_SENDER: Final = 2
MAX_LARGE_BODIES: Final = 32
"""Large bodies that are kept in memory until they are complete, slow or fast."""

_slow_bodies = ConcurrencyLimit(MAX_SLOW_BODIES_PER_SENDER, total=lambda: MAX_SLOW_BODIES)
_large_bodies = ConcurrencyLimit(MAX_LARGE_BODIES_PER_SENDER, total=lambda: MAX_LARGE_BODIES)


@dataclass(slots=True)
class BodyTimeout:
    """The time left for a client to send or read more. Starts again after MIN_BYTES_PER_TIMEOUT bytes."""

    left_s: float = BODY_TIMEOUT_S
    _received: int = 0

    def received(self, size: int, *, after_s: float) -> None:
        """Count ``size`` bytes that took ``after_s`` seconds."""
        self.left_s, self._received = max(self.left_s - after_s, 0.0), self._received + size
        if self._received >= MIN_BYTES_PER_TIMEOUT:
            self.left_s, self._received = BODY_TIMEOUT_S, 0


@dataclass(slots=True)
class Body:
    """A received body. With ``more_body`` the rest can be received; with an ``error`` it is incomplete and
    no more will come."""

    content: bytes = b""
    more_body: bool = False
    error: HmiError | None = None


def timeout_error() -> HmiError:
    """``body_too_slow``: the body stalled, or arrived too slowly."""
    return HmiError(
        ErrorCode.BODY_TOO_SLOW,
        f"The body did not arrive in time: at least {MIN_BYTES_PER_TIMEOUT:,} bytes must arrive every"
        f" {BODY_TIMEOUT_S:g} s until it is complete.",
    )


def truncated_error() -> HmiError:
    """``body_truncated``: the connection ended too early."""
    return HmiError(ErrorCode.BODY_TRUNCATED, "The connection ended before the body was complete.")


def too_large_error(limit: int) -> HmiError:
    """``body_too_large``: a chunked body goes beyond the limit."""
    message = f"The body is larger than {limit:,} bytes, the limit of this address."
    return HmiError(ErrorCode.BODY_TOO_LARGE, message, details={"limit": limit})


def declared_size(headers: Headers) -> int | None:
    """The size of the body in bytes; None if it is chunked. Raises ``invalid_length``."""
    lengths: list[bytes] = []
    codings: list[bytes] = []
    for name, value in headers:
        if name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            codings.append(value.strip().lower())
    if codings:
        if lengths or codings != [b"chunked"]:
            raise _length_error("Transfer-Encoding must be chunked, without Content-Length.")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > MAX_LENGTH_DIGITS:
        raise _length_error("Content-Length must be one whole number of bytes.")
    return int(lengths[0])


async def receive_body(scope: Message, receive: Receive) -> Body:
    """Receive the body of a request. One that is larger than SMALL_BODY_BYTES has ``more_body``."""
    try:
        size = declared_size(scope["headers"])
    except HmiError as error:
        return Body(error=error)
    if size == 0:
        return Body()
    body = Body(more_body=True)
    if size is None or size <= SMALL_BODY_BYTES:
        await receive_rest(
            body, receive, size=size, limit=SMALL_BODY_BYTES, sender=lambda: _sender_address(scope)
        )
    return body


async def receive_rest(
    body: Body, receive: Receive, *, size: int | None, limit: int, sender: Callable[[], int | str]
) -> None:
    """Receive more until the body has ``size`` bytes, ends (if ``size`` is None), or exceeds ``limit``.

    Sets ``body.error`` if it is truncated or too slow, or if it is slow or large while ``sender`` has too
    many of those already.
    """
    chunks, received = [body.content] if body.content else [], len(body.content)
    is_small = limit <= SMALL_BODY_BYTES
    deadline = _BodyDeadline(
        sender, _slow_bodies if is_small else _large_bodies, after_s=SLOW_AFTER_S if is_small else 0.0
    )
    try:
        async with asyncio.timeout(None) as timeout:
            deadline.start(timeout)
            while received <= limit and received != size:
                started = time.monotonic()
                message = await receive()
                if message["type"] == DISCONNECT:
                    raise truncated_error()
                chunk = message.get("body", b"")
                chunks.append(chunk)
                received += len(chunk)
                if not message.get("more_body"):
                    if size is not None and received != size:
                        raise truncated_error()
                    size = received
                deadline.received(len(chunk), after_s=time.monotonic() - started)
        body.more_body = received != size
    except TimeoutError:
        body.error = deadline.error()
    except HmiError as error:
        body.error = error
    finally:
        deadline.stop()
        body.content = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if body.error is not None:
        body.more_body = False


class _BodyDeadline:
    """The timeout of one body. After ``after_s`` it also needs one of the sender's slots."""

    def __init__(self, sender: Callable[[], int | str], slots: ConcurrencyLimit, *, after_s: float) -> None:
        self._sender, self._slots, self._body_timeout = sender, slots, BodyTimeout()
        self._after_s = after_s
        self._timer: asyncio.TimerHandle | None = None
        self._owner: int | str | None = None
        self._is_refused = False

    def start(self, timeout: asyncio.Timeout) -> None:
        """A body that arrives at once costs one timer that never fires."""
        self._timeout, self._loop = timeout, asyncio.get_running_loop()
        if self._after_s:
            delay_s = min(self._after_s, self._body_timeout.left_s)
            self._timer = self._loop.call_later(delay_s, self._take_slot)
        else:
            self._take_slot()

    def received(self, size: int, *, after_s: float) -> None:
        """Count ``size`` bytes that took ``after_s`` seconds. Raises TimeoutError if they came too late."""
        self._body_timeout.received(size, after_s=after_s)
        if not self._body_timeout.left_s:
            raise TimeoutError
        if self._owner is not None:
            self._timeout.reschedule(self._loop.time() + self._body_timeout.left_s)

    def error(self) -> HmiError:
        """Why the deadline passed: no slot (``queue_full``), or ``body_too_slow``."""
        if self._is_refused:
            message = "Too many slow or large bodies are being received; try again in a moment."
            return HmiError(ErrorCode.QUEUE_FULL, message, retry_after=RETRY_AFTER_S)
        return timeout_error()

    def stop(self) -> None:
        """Cancel the timer and release the slot."""
        if self._timer is not None:
            self._timer.cancel()
        if self._owner is not None:
            self._slots.release(self._owner)

    def _take_slot(self) -> None:
        owner = self._sender()
        if self._slots.acquire(owner):
            self._owner = owner
            left_s = max(self._body_timeout.left_s - self._after_s, 0.0)
        else:
            self._is_refused, left_s = True, 0.0
        self._timeout.reschedule(self._loop.time() + left_s)


def _sender_address(scope: Message) -> str:
    forwarded = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
    return rate_limit_network(forwarded_address(scope["client"][0], forwarded.decode("latin-1")))


def _length_error(message: str) -> HmiError:
    return HmiError(ErrorCode.INVALID_LENGTH, message)

"""The body of a request, read on the event loop before anything answers the request.

No thread waits for a slow sender, and nothing runs on a body that did not arrive whole. Bodies beyond
SMALL_BODY_BYTES are not read here: who may send them is found out first (see ``body_limits``).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from tenants.base.client_address import address_to_count, forwarded_address
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import RETRY_AFTER_S, SMALL_BODY_BYTES, Places

WAIT_S: Final = 60.0


LEAST_BYTES: Final = 240 * 1024
"""Of each WAIT_S: 4 KiB a second."""


def too_slow() -> HmiError:
    """What the sender of a body is told who was waited for in vain."""
    message = f"The body did not come whole, or less than {LEAST_BYTES:,} bytes of it in {WAIT_S:g} s."
    return HmiError(ErrorCode.BODY_TOO_SLOW, message)


@dataclass(slots=True)
class BodyTimeout:
    """With one sender, who is waited for no longer than ``left_s``."""

    left_s: float = WAIT_S
    _came: int = 0

    def came(self, size: int, *, after_s: float) -> None:
        """So many bytes came when they had been waited for so long."""
        self.left_s, self._came = max(self.left_s - after_s, 0.0), self._came + size
        if self._came >= LEAST_BYTES:
            self.left_s, self._came = WAIT_S, 0


Message = dict[str, Any]


Receive = Callable[[], Awaitable[Message]]


Headers = Iterable[tuple[bytes, bytes]]


BODY: Final = "hmi.body"
"""Where a scope of ASGI has the body that was read already."""


DISCONNECT: Final = "http.disconnect"


SLOW_AFTER_S: Final = 2.0
"""A body that takes longer holds a place of its sender."""


SLOW_BODIES_EACH: Final = 16


SLOW_BODIES: Final = 128


LARGE_BODIES_EACH: Final = 2


LARGE_BODIES: Final = 32
"""Of those that are kept in memory until they are whole, however fast they are."""


_slow = Places(SLOW_BODIES_EACH, total=lambda: SLOW_BODIES)


_large = Places(LARGE_BODIES_EACH, total=lambda: LARGE_BODIES)


@dataclass(slots=True)
class Body:
    """What has come of a body. If it ``goes_on``, the rest may be received; with a ``refusal`` it is not
    whole, and no more will come."""

    content: bytes = b""
    goes_on: bool = False
    refusal: HmiError | None = None


def truncated() -> HmiError:
    """What the sender of a body is told that broke off."""
    return HmiError(ErrorCode.BODY_TRUNCATED, "The connection ended before the body was complete.")


def too_large(limit: int) -> HmiError:
    """What the sender of a body is told that goes beyond the limit."""
    message = f"The body is larger than {limit:,} bytes, the most that is taken here."
    return HmiError(ErrorCode.BODY_TOO_LARGE, message, details={"limit": limit})


def declared_size(headers: Headers) -> int | None:
    """The bytes that follow the headers; None if these are chunked. Raises ``invalid_length``."""
    lengths: list[bytes] = []
    codings: list[bytes] = []
    for name, value in headers:
        if name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            codings.append(value.strip().lower())
    if codings:
        if lengths or codings != [b"chunked"]:
            raise _unclear("Transfer-Encoding is chunked, and stands alone: without Content-Length.")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not lengths[0].isdigit():
        raise _unclear("Content-Length is one whole number of bytes.")
    return int(lengths[0])


async def take_body(scope: Message, receive: Receive) -> Body:
    """The body of this request, whole unless it is larger than SMALL_BODY_BYTES or refused."""
    try:
        size = declared_size(scope["headers"])
    except HmiError as refusal:
        return Body(refusal=refusal)
    if not size and size is not None:
        return Body()
    body = Body(goes_on=True)
    if size is None or size <= SMALL_BODY_BYTES:
        await take_rest(body, receive, size=size, most=SMALL_BODY_BYTES, sender=lambda: _address(scope))
    return body


async def take_rest(
    body: Body, receive: Receive, *, size: int | None, most: int, sender: Callable[[], int | str]
) -> None:
    """Read on until the body has ``size`` bytes or, if that is None, ends, or is longer than ``most``. It is
    refused as soon as it breaks off, comes too slowly, or is slow or large while its sender has no place
    left."""
    pieces, came = [body.content] if body.content else [], len(body.content)
    is_small = most <= SMALL_BODY_BYTES
    wait = _Wait(sender, _slow if is_small else _large, after_s=SLOW_AFTER_S if is_small else 0.0)
    try:
        async with asyncio.timeout(None) as limit:
            wait.begin(limit)
            while came <= most and came != size:
                begun = time.monotonic()
                message = await receive()
                if message["type"] == DISCONNECT:
                    raise truncated()
                piece = message.get("body", b"")
                pieces.append(piece)
                came += len(piece)
                if not message.get("more_body"):
                    if size is not None and came != size:
                        raise truncated()
                    size = came
                wait.came(len(piece), after_s=time.monotonic() - begun)
        body.goes_on = came != size
    except TimeoutError:
        body.refusal = wait.refusal()
    except HmiError as refusal:
        body.refusal = refusal
    finally:
        wait.end()
        body.content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if body.refusal is not None:
        body.goes_on = False


class _Wait:
    """For a body: without anything for ``after_s``, then in one of its sender's places."""

    def __init__(self, sender: Callable[[], int | str], places: Places, *, after_s: float) -> None:
        self._sender, self._places, self._patience = sender, places, BodyTimeout()
        self._after_s = after_s
        self._timer: asyncio.TimerHandle | None = None
        self._owner: int | str | None = None
        self._is_refused = False

    def begin(self, limit: asyncio.Timeout) -> None:
        """From now on. A body that comes at once costs one timer that never rings."""
        self._limit, self._loop = limit, asyncio.get_running_loop()
        if self._after_s:
            self._timer = self._loop.call_later(min(self._after_s, self._patience.left_s), self._go_on)
        else:
            self._go_on()

    def came(self, size: int, *, after_s: float) -> None:
        """So many bytes came when they had been waited for so long. Raises TimeoutError if that is too long,
        whatever they are."""
        self._patience.came(size, after_s=after_s)
        if not self._patience.left_s:
            raise TimeoutError
        if self._owner is not None:
            self._limit.reschedule(self._loop.time() + self._patience.left_s)

    def refusal(self) -> HmiError:
        """Why the wait is over although the body is not whole."""
        if self._is_refused:
            message = "Too many slow or large bodies are on their way already; send this one in a moment."
            return HmiError(ErrorCode.QUEUE_FULL, message, retry_after=RETRY_AFTER_S)
        return too_slow()

    def end(self) -> None:
        """Give the place back."""
        if self._timer is not None:
            self._timer.cancel()
        if self._owner is not None:
            self._places.give_back(self._owner)

    def _go_on(self) -> None:
        owner = self._sender()
        if self._places.take(owner):
            self._owner = owner
            left_s = max(self._patience.left_s - self._after_s, 0.0)
        else:
            self._is_refused, left_s = True, 0.0
        self._limit.reschedule(self._loop.time() + left_s)


def _address(scope: Message) -> str:
    forwarded = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
    return address_to_count(forwarded_address(scope["client"][0], forwarded.decode("latin-1")))


def _unclear(message: str) -> HmiError:
    return HmiError(ErrorCode.INVALID_LENGTH, message)

"""One request to an endpoint: only to addresses that were checked, within a time, reading a little."""

import asyncio
import base64
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from socket import SOCK_STREAM, gaierror
from typing import Final

import httpx
from django.conf import settings
from standardwebhooks import Webhook

from tenants.webhooks.target_urls import AddressNotAllowed, check_addresses

REQUEST_TIMEOUT_S: Final = 15.0


READ_TIMEOUT_S: Final = 5.0
"""To connect, and between any two bytes."""


MAX_EXCERPT_BYTES: Final = 1024


MAX_ADDRESSES: Final = 3


MAX_ERROR_LENGTH: Final = 300


Resolve = Callable[[str, int], Awaitable[list[str]]]
"""All addresses of a name."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """What came of a request. ``status`` is none where nobody answered, and ``error`` says why a request
    counts as failed; ``excerpt`` is the beginning of the body. ``retry_after`` is in seconds."""

    status: int | None
    error: str
    excerpt: str
    ms: int
    retry_after: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the receiver has taken the event."""
        return not self.error


async def resolve_host(host: str, port: int) -> list[str]:
    """As the system resolves names.

    Whoever stops waiting leaves the look-up to end by itself. The event loop would wait for its own threads,
    for as long as a name server is silent.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def settle(addresses: list[str] | OSError | ValueError) -> None:
        if found.cancelled():
            return
        if isinstance(addresses, list):
            found.set_result(addresses)
        else:
            found.set_exception(addresses)

    def look_up() -> None:
        answer: list[str] | OSError | ValueError
        try:
            answer = [str(address[0]) for *_, address in socket.getaddrinfo(host, port, type=SOCK_STREAM)]
        except (OSError, ValueError) as error:
            answer = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, answer)

    threading.Thread(target=look_up, name="look-up", daemon=True).start()
    return await found


class PinnedTransport(httpx.AsyncBaseTransport):
    """Resolves a name once, checks all its addresses, and connects to those, whatever the name says by then.

    TLS and the request go by the name as usual. ``AddressNotAllowed`` where an address is not for webhooks.
    """

    def __init__(self, resolve: Resolve = resolve_host) -> None:
        self._resolve = resolve
        self._inner = httpx.AsyncHTTPTransport(
            verify=_trust(settings.HMI_WEBHOOK_CA_FILE), trust_env=False, retries=0
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        name = request.url.raw_host.decode("ascii")
        port = request.url.port or {"https": 443, "http": 80}[request.url.scheme]
        addresses = check_addresses(await self._resolve(name, port))[:MAX_ADDRESSES]
        request.extensions = {**request.extensions, "sni_hostname": name}
        for left, address in enumerate(addresses, start=1 - len(addresses)):
            request.url = request.url.copy_with(host=address)
            try:
                return await self._inner.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if not left:
                    raise
        raise AssertionError("there is at least one address")

    async def aclose(self) -> None:
        await self._inner.aclose()


def post(
    url: str, *, body: bytes, headers: Mapping[str, str], resolve: Resolve = resolve_host
) -> WebhookResponse:
    """Send the body there; never raises for what the receiver does. Redirects are not followed."""
    began = time.monotonic()
    try:
        status, found, retry_after = asyncio.run(_within(url, body, headers, resolve))
    except TimeoutError:
        return WebhookResponse(None, f"No whole answer within {REQUEST_TIMEOUT_S:.0f} s.", "", _ms(began))
    except gaierror:
        return WebhookResponse(None, "The name cannot be resolved.", "", _ms(began))
    except AddressNotAllowed as error:
        return WebhookResponse(None, str(error), "", _ms(began))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        said = _printable(str(error)) or "no reason given"
        return WebhookResponse(None, f"{type(error).__name__}: {said}"[:MAX_ERROR_LENGTH], "", _ms(began))
    return WebhookResponse(status, _error_of(status), _printable(found), _ms(began), retry_after)


async def _within(
    url: str, body: bytes, headers: Mapping[str, str], resolve: Resolve
) -> tuple[int, str, int | None]:
    async with (
        asyncio.timeout(REQUEST_TIMEOUT_S),
        httpx.AsyncClient(
            transport=PinnedTransport(resolve),
            timeout=READ_TIMEOUT_S,
            follow_redirects=False,
            trust_env=False,
        ) as client,
        client.stream("POST", url, content=body, headers=headers) as response,
    ):
        found = b""
        async for piece in response.aiter_raw():  # as it comes: nothing is unpacked
            found += piece
            if len(found) >= MAX_EXCERPT_BYTES:
                break
        return (
            response.status_code,
            found[:MAX_EXCERPT_BYTES].decode(errors="replace"),
            _retry_after(response),
        )


def _error_of(status: int) -> str:
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"The answer was a redirect ({status}), which is not followed."
    return f"The answer was {status}."


def _retry_after(response: httpx.Response) -> int | None:
    asked = response.headers.get("retry-after", "")
    return int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 8 else None


def _printable(text: str) -> str:
    """Without what a database or a page cannot show."""
    return "".join(
        sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in text
    )


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


@lru_cache(maxsize=4)
def _trust(ca_file: str | None) -> ssl.SSLContext:
    """Whose certificates are believed: the usual ones, or those of the operator's file beside them."""
    context = httpx.create_ssl_context(trust_env=False)
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    return context


PREFIX: Final = "whsec_"


SECRET_BYTES: Final = 32


def new_secret() -> str:
    """A random secret, as receivers' libraries take it."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(*, event_id: str, at: datetime, body: str, with_secrets: Sequence[str]) -> dict[str, str]:
    """The headers of a request with this body, sent now (``at``, UTC), signed with each of the secrets."""
    signatures = [Webhook(secret).sign(event_id, at, body) for secret in with_secrets]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
        "content-type": "application/json",
        "accept-encoding": "identity",
        "user-agent": "HMI-Webhooks/1",
    }

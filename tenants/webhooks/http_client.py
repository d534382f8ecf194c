"""HTTP client of webhooks: connects only to allowed addresses, with a timeout and a limit on the response."""

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
from functools import cache
from socket import SOCK_STREAM, gaierror
from typing import Final

import httpx
from standardwebhooks import Webhook

from tenants.webhooks.target_urls import AddressNotAllowed, check_addresses

REQUEST_TIMEOUT_S: Final = 15.0
READ_TIMEOUT_S: Final = 5.0
"""For connecting, and between any two bytes."""
MAX_EXCERPT_BYTES: Final = 1024
MAX_ADDRESSES: Final = 3
MAX_ERROR_LENGTH: Final = 300
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - no secret
SECRET_BYTES: Final = 32

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns all addresses of a host and port."""


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """The result of a request.

    ``status`` is None without a response. ``error`` is why the request failed, or empty. ``excerpt`` is the
    beginning of the body. ``retry_after`` is in seconds.
    """

    status: int | None
    error: str
    excerpt: str
    ms: int
    retry_after: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the receiver accepted the event."""
        return not self.error


async def resolve_host(host: str, port: int) -> list[str]:
    """The addresses of a host by the system's resolver.

    It runs in a thread of its own, which is abandoned after a timeout. The event loop would wait for its
    executor's threads, even if the name server never responds.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[str]] = loop.create_future()

    def set_result(result: list[str] | OSError | ValueError) -> None:
        if future.cancelled():
            return
        if isinstance(result, list):
            future.set_result(result)
        else:
            future.set_exception(result)

    def resolve() -> None:
        result: list[str] | OSError | ValueError
        try:
            result = [str(address[0]) for *_, address in socket.getaddrinfo(host, port, type=SOCK_STREAM)]
        except (OSError, ValueError) as error:
            result = error
        with suppress(RuntimeError):  # the loop was closed after a timeout
            loop.call_soon_threadsafe(set_result, result)

    threading.Thread(target=resolve, name="resolve-host", daemon=True).start()
    return await future


class PinnedTransport(httpx.AsyncBaseTransport):
    """Resolves the host once, checks all its addresses, and connects only to those (against DNS rebinding).

    TLS and the ``Host`` header still use the host name. Raises ``AddressNotAllowed``.
    """

    def __init__(self, resolve: Resolve = resolve_host) -> None:
        self._resolve = resolve
        self._inner = httpx.AsyncHTTPTransport(verify=_ssl_context(), trust_env=False, retries=0)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.raw_host.decode("ascii")
        port = request.url.port or {"https": 443, "http": 80}[request.url.scheme]
        resolved = await self._resolve(host, port)
        addresses = check_addresses(resolved, scheme=request.url.scheme)[:MAX_ADDRESSES]
        request.extensions = {**request.extensions, "sni_hostname": host}
        for address in addresses:
            request.url = request.url.copy_with(host=address)
            try:
                return await self._inner.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if address == addresses[-1]:
                    raise
        raise AssertionError("check_addresses returns at least one address")

    async def aclose(self) -> None:
        await self._inner.aclose()


def post(
    url: str, *, body: bytes, headers: Mapping[str, str], resolve: Resolve = resolve_host
) -> WebhookResponse:
    """Send a POST request. Errors are in the result. Redirects are not followed."""
    start = time.monotonic()
    try:
        status, excerpt, retry_after = asyncio.run(_post(url, body, headers, resolve))
    except TimeoutError:
        message = f"No complete response within {REQUEST_TIMEOUT_S:.0f} s."
        return WebhookResponse(None, message, "", _ms_since(start))
    except gaierror:
        return WebhookResponse(None, "The host name cannot be resolved.", "", _ms_since(start))
    except AddressNotAllowed as error:
        return WebhookResponse(None, str(error), "", _ms_since(start))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError) as error:
        message = f"{type(error).__name__}: {_printable(str(error)) or 'no message'}"
        return WebhookResponse(None, message[:MAX_ERROR_LENGTH], "", _ms_since(start))
    return WebhookResponse(status, _status_error(status), _printable(excerpt), _ms_since(start), retry_after)


async def _post(
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
        content = b""
        async for chunk in response.aiter_raw():  # raw: decompression could exceed the limit
            content += chunk
            if len(content) >= MAX_EXCERPT_BYTES:
                break
        excerpt = content[:MAX_EXCERPT_BYTES].decode(errors="replace")
        return response.status_code, excerpt, _retry_after(response)


def _status_error(status: int) -> str:
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"The response was a redirect ({status}), which is not followed."
    return f"The response was {status}."


def _retry_after(response: httpx.Response) -> int | None:
    value = response.headers.get("retry-after", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 8 else None


def _printable(text: str) -> str:
    """Replace the characters that the database cannot store or a page cannot show."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def _ms_since(start: float) -> int:
    return round((time.monotonic() - start) * 1000)


@cache
def _ssl_context() -> ssl.SSLContext:
    """A context that trusts the usual certificates, or those of ``SSL_CERT_FILE``."""
    return httpx.create_ssl_context()


def new_secret() -> str:
    """A random secret in the format of Standard Webhooks."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(*, event_id: str, at: datetime, body: str, with_secrets: Sequence[str]) -> dict[str, str]:
    """The headers of a request with this body and time (UTC), with a signature for each secret."""
    signatures = [Webhook(secret).sign(event_id, at, body) for secret in with_secrets]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
        "content-type": "application/json",
        "accept-encoding": "identity",
        "user-agent": "HMI-Webhooks/1",
    }

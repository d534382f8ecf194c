"""The clients: `Client` blocks, `AsyncClient` is awaited. Both have the methods of `ClientMethods`."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import ExitStack, aclosing, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

import httpx

from hmi_client.credentials import checked_key, checked_url
from hmi_client.errors import ConnectionFailed, HmiError
from hmi_client.event_stream import event_data, event_data_async
from hmi_client.flow import ApiRequest, Flow, FlowRun, Item, NextEvent, Sleep, T
from hmi_client.methods import ClientMethods
from hmi_client.retries import Retries, with_retries
from hmi_client.version import __version__

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "HMI_URL"
KEY_VARIABLE = "HMI_API_KEY"
API_PREFIX = "/api/v1/"
TIMEOUT_S = 60.0
USER_AGENT = f"hmi-client/{__version__}"
HttpClient = TypeVar("HttpClient", httpx.Client, httpx.AsyncClient)


class _BaseClient:
    """The configuration of both clients."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
    ) -> None:
        self.url = checked_url(url or os.environ.get(URL_VARIABLE, "").strip() or DEFAULT_URL)
        self._key = checked_key(api_key or "") or checked_key(os.environ.get(KEY_VARIABLE, ""))
        self._timeout_s = timeout_s
        self._retries = retries or Retries()

    def _build_request(
        self, http: httpx.Client | httpx.AsyncClient, request: ApiRequest, files: Mapping[str, IO[bytes]]
    ) -> httpx.Request:
        authorization = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            return http.build_request(
                request.method,
                f"{self.url}{'' if request.path.startswith('/') else API_PREFIX}{request.path}",
                params=dict(request.params) or None,
                json=request.json,
                content=request.content,
                data=dict(request.form) or None,
                files=files or None,
                headers={"User-Agent": USER_AGENT, **authorization, **request.headers},
                timeout=request.timeout_s or self._timeout_s,
            )
        except (UnicodeEncodeError, httpx.InvalidURL):
            raise HmiError(
                "The request has a character that cannot be sent: half of a surrogate pair, or a non-ASCII "
                "character in a header."
            ) from None


class Client(_BaseClient, ClientMethods):
    """The blocking client. ``url`` and ``api_key`` default to HMI_URL and HMI_API_KEY.

    Pass an ``httpx.Client`` as ``http`` to configure proxies or certificates. Not thread-safe.
    """

    _http: httpx.Client

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(url, api_key, timeout_s=timeout_s, retries=retries)
        self._http = http or _http_client(httpx.Client)

    def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""
        run = FlowRun(with_retries(flow, self._retries))
        for step in run:
            self._execute(step, run)
        return run.result

    def iterate(self, flow: Flow[None]) -> Generator[Any]:
        """Run a flow lazily and yield its items. Closing the generator closes the response that it reads."""
        run = FlowRun(with_retries(flow, self._retries))
        streamed: httpx.Response | None = None
        events: Iterator[str] = iter(())
        try:
            for step in run:
                if isinstance(step, Item):
                    yield step.item
                elif isinstance(step, NextEvent):
                    run.response = _next_event(events)
                else:
                    self._execute(step, run)
                    if isinstance(step, ApiRequest) and step.streamed and run.response is not None:
                        streamed = run.response
                        events = event_data(streamed.iter_bytes())
        finally:
            if streamed is not None:
                streamed.close()

    def _execute(self, step: object, run: FlowRun[Any]) -> None:
        match step:
            case ApiRequest():
                try:
                    run.response = self._send(step)
                except (httpx.RequestError, HmiError) as error:
                    run.error = error
            case Sleep(seconds):
                time.sleep(seconds)

    def _send(self, request: ApiRequest) -> httpx.Response:
        with _opened(request.files) as files:
            return self._send_built(request, self._build_request(self._http, request, files))

    def _send_built(self, request: ApiRequest, http_request: httpx.Request) -> httpx.Response:
        if request.streamed:
            response = self._http.send(http_request, stream=True)
            if not response.is_success:
                response.read()
            return response
        if request.save_to is None:
            return self._http.send(http_request)
        with closing(self._http.send(http_request, stream=True)) as response:
            if response.is_success:
                with request.save_to.open("wb") as file:
                    file.writelines(response.iter_bytes())
            else:
                response.read()
            return response

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(_BaseClient, ClientMethods):
    """The asynchronous client. It reads and writes files in the event loop's thread, a chunk at a time."""

    _http: httpx.AsyncClient

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(url, api_key, timeout_s=timeout_s, retries=retries)
        self._http = http or _http_client(httpx.AsyncClient)

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""
        run = FlowRun(with_retries(flow, self._retries))
        for step in run:
            await self._execute(step, run)
        return run.result

    async def iterate(self, flow: Flow[None]) -> AsyncGenerator[Any]:
        """Run a flow lazily and yield its items. Closing the generator closes the response that it reads."""
        run = FlowRun(with_retries(flow, self._retries))
        streamed: httpx.Response | None = None
        events: AsyncIterator[str] | None = None
        try:
            for step in run:
                if isinstance(step, Item):
                    yield step.item
                elif isinstance(step, NextEvent):
                    run.response = None if events is None else await _next_event_async(events)
                else:
                    await self._execute(step, run)
                    if isinstance(step, ApiRequest) and step.streamed and run.response is not None:
                        streamed = run.response
                        events = event_data_async(streamed.aiter_bytes())
        finally:
            if streamed is not None:
                await streamed.aclose()

    async def _execute(self, step: object, run: FlowRun[Any]) -> None:
        match step:
            case ApiRequest():
                try:
                    run.response = await self._send(step)
                except (httpx.RequestError, HmiError) as error:
                    run.error = error
            case Sleep(seconds):
                await asyncio.sleep(seconds)

    async def _send(self, request: ApiRequest) -> httpx.Response:
        with _opened(request.files) as files:
            return await self._send_built(request, self._build_request(self._http, request, files))

    async def _send_built(self, request: ApiRequest, http_request: httpx.Request) -> httpx.Response:
        if request.streamed:
            response = await self._http.send(http_request, stream=True)
            if not response.is_success:
                await response.aread()
            return response
        if request.save_to is None:
            return await self._http.send(http_request)
        async with aclosing(await self._http.send(http_request, stream=True)) as response:
            if response.is_success:
                with request.save_to.open("wb") as file:
                    async for chunk in response.aiter_bytes():
                        file.write(chunk)
            else:
                await response.aread()
            return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


@contextmanager
def _opened(files: Mapping[str, Path]) -> Iterator[dict[str, IO[bytes]]]:
    """The files, open for one attempt to send them."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(path.open("rb")) for name, path in files.items()}


def _http_client(kind: type[HttpClient]) -> HttpClient:
    try:
        return kind()
    except (ValueError, ImportError, OSError, httpx.InvalidURL):
        raise HmiError(
            "The environment has a proxy or a certificate file that cannot be used: check HTTP_PROXY, "
            "HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE."
        ) from None  # which may name a proxy with its password


def _next_event(events: Iterator[str]) -> str | None:
    """The data of the next event, None after the last. Raises ConnectionFailed."""
    try:
        return next(events, None)
    except httpx.RequestError as error:
        raise _broken(error) from error


async def _next_event_async(events: AsyncIterator[str]) -> str | None:
    """As `_next_event`."""
    try:
        return await anext(events, None)
    except httpx.RequestError as error:
        raise _broken(error) from error


def _broken(error: httpx.RequestError) -> ConnectionFailed:
    reason = str(error).strip().rstrip(".") or type(error).__name__
    return ConnectionFailed(f"The response ended early: {reason}.")

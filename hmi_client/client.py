"""The clients: `Client` blocks, `AsyncClient` is awaited. Both have the methods of `ClientMethods`."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from types import TracebackType
from typing import Any, Self

import httpx

from hmi_client.flow import ApiRequest, Flow, FlowRun, Item, Sleep, T
from hmi_client.methods import ClientMethods
from hmi_client.retries import Retries, with_retries

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "HMI_URL"
KEY_VARIABLE = "HMI_API_KEY"
API_PREFIX = "/api/v1/"
TIMEOUT_S = 60.0
USER_AGENT = "hmi-client"


class _BaseClient:
    """The configuration of both clients."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        http: Any = None,
    ) -> None:
        self.url = (url or os.environ.get(URL_VARIABLE) or DEFAULT_URL).rstrip("/")
        self._key = key or os.environ.get(KEY_VARIABLE) or ""
        self._timeout_s = timeout_s
        self._retries = retries or Retries()
        self._http = http

    def _build_request(self, http: httpx.Client | httpx.AsyncClient, request: ApiRequest) -> httpx.Request:
        authorization = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return http.build_request(
            request.method,
            f"{self.url}{API_PREFIX}{request.path}",
            params=dict(request.params) or None,
            json=request.json,
            content=request.content,
            headers={"User-Agent": USER_AGENT, **authorization, **request.headers},
            timeout=request.timeout_s or self._timeout_s,
        )


class Client(_BaseClient, ClientMethods):
    """The blocking client. ``url`` and ``key`` default to HMI_URL and HMI_API_KEY.

    Pass an ``httpx.Client`` as ``http`` to configure proxies or certificates. Not thread-safe.
    """

    _http: httpx.Client

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(url, key, timeout_s=timeout_s, retries=retries, http=http or httpx.Client())

    def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""
        run = FlowRun(with_retries(flow, self._retries))
        for step in run:
            self._execute(step, run)
        return run.result

    def iterate(self, flow: Flow[None]) -> Iterator[Any]:
        """Run a flow lazily and yield its items."""
        run = FlowRun(with_retries(flow, self._retries))
        for step in run:
            if isinstance(step, Item):
                yield step.item
            else:
                self._execute(step, run)

    def _execute(self, step: object, run: FlowRun[Any]) -> None:
        match step:
            case ApiRequest():
                try:
                    run.response = self._send(step)
                except httpx.TransportError as error:
                    run.error = error
            case Sleep(seconds):
                time.sleep(seconds)

    def _send(self, request: ApiRequest) -> httpx.Response:
        http_request = self._build_request(self._http, request)
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
        key: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(url, key, timeout_s=timeout_s, retries=retries, http=http or httpx.AsyncClient())

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""
        run = FlowRun(with_retries(flow, self._retries))
        for step in run:
            await self._execute(step, run)
        return run.result

    async def iterate(self, flow: Flow[None]) -> AsyncIterator[Any]:
        """Run a flow lazily and yield its items."""
        run = FlowRun(with_retries(flow, self._retries))
        for step in run:
            if isinstance(step, Item):
                yield step.item
            else:
                await self._execute(step, run)

    async def _execute(self, step: object, run: FlowRun[Any]) -> None:
        match step:
            case ApiRequest():
                try:
                    run.response = await self._send(step)
                except httpx.TransportError as error:
                    run.error = error
            case Sleep(seconds):
                await asyncio.sleep(seconds)

    async def _send(self, request: ApiRequest) -> httpx.Response:
        http_request = self._build_request(self._http, request)
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

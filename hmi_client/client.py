"""The two clients: the same operations, one blocking, one to be awaited."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from types import TracebackType
from typing import Any, Self

import httpx

from hmi_client.flow import Call, Flow, FlowRun, Item, Pause, T
from hmi_client.methods import Operations
from hmi_client.retries import Retries, with_retries

DEFAULT_URL = "http://127.0.0.1:8000"
URL_VARIABLE = "HMI_URL"
KEY_VARIABLE = "HMI_API_KEY"
API = "/api/v1/"
TIMEOUT_S = 60.0
AGENT = {"User-Agent": "hmi-client"}


class _Settings:
    """Where the server is, who asks, and how patiently."""

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

    def _asked(self, http: httpx.Client | httpx.AsyncClient, call: Call) -> httpx.Request:
        authorization = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return http.build_request(
            call.method,
            f"{self.url}{API}{call.path}",
            params=dict(call.params) or None,
            json=call.json,
            content=call.content,
            headers={**AGENT, **authorization, **call.headers},
            timeout=call.timeout_s or self._timeout_s,
        )


class Client(_Settings, Operations):
    """A client that blocks. ``url`` and ``key`` come from HMI_URL and HMI_API_KEY where they are not given.

    ``http`` may be an ``httpx.Client`` of one's own (proxies, certificates). Not to be shared by threads.
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
        """Carry an operation out."""
        course = FlowRun(with_retries(flow, self._retries))
        for step in course:
            self._do(step, course)
        return course.result

    def each(self, flow: Flow[None]) -> Iterator[Any]:
        """Carry an operation out as far as the caller iterates."""
        course = FlowRun(with_retries(flow, self._retries))
        for step in course:
            if isinstance(step, Item):
                yield step.item
            else:
                self._do(step, course)

    def _do(self, step: object, course: FlowRun[Any]) -> None:
        match step:
            case Call():
                try:
                    course.answer = self._answer(step)
                except httpx.TransportError as error:
                    course.failure = error
            case Pause(seconds):
                time.sleep(seconds)

    def _answer(self, call: Call) -> httpx.Response:
        asked = self._asked(self._http, call)
        if call.into is None:
            return self._http.send(asked)
        with closing(self._http.send(asked, stream=True)) as response:
            if response.is_success:
                with call.into.open("wb") as file:
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


class AsyncClient(_Settings, Operations):
    """The same, to be awaited. Files are read and written, a piece at a time, in the event loop's thread."""

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
        """Carry an operation out."""
        course = FlowRun(with_retries(flow, self._retries))
        for step in course:
            await self._do(step, course)
        return course.result

    async def each(self, flow: Flow[None]) -> AsyncIterator[Any]:
        """Carry an operation out as far as the caller iterates."""
        course = FlowRun(with_retries(flow, self._retries))
        for step in course:
            if isinstance(step, Item):
                yield step.item
            else:
                await self._do(step, course)

    async def _do(self, step: object, course: FlowRun[Any]) -> None:
        match step:
            case Call():
                try:
                    course.answer = await self._answer(step)
                except httpx.TransportError as error:
                    course.failure = error
            case Pause(seconds):
                await asyncio.sleep(seconds)

    async def _answer(self, call: Call) -> httpx.Response:
        asked = self._asked(self._http, call)
        if call.into is None:
            return await self._http.send(asked)
        async with aclosing(await self._http.send(asked, stream=True)) as response:
            if response.is_success:
                with call.into.open("wb") as file:
                    async for piece in response.aiter_bytes():
                        file.write(piece)
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

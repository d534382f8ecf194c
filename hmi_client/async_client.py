"""The asynchronous client, for many inputs at once."""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import httpx

from hmi_client.connection import TIMEOUT_S
from hmi_client.operations.infer import Quality, infer_request
from hmi_client.responses import Answer, from_json
from hmi_client.retries import Retries, delay_before_retry
from hmi_client.server import Server, http_client, json_of


class AsyncClient:
    """Inference that is awaited. Its arguments are those of `Client`, with an ``httpx.AsyncClient``.

    For everything else await ``asyncio.to_thread(client.list_jobs)`` and the like, of a `Client`.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._server = Server(url, api_key, timeout_s)
        self._retries = retries or Retries()
        self._http = http or http_client(httpx.AsyncClient)

    async def infer(
        self,
        model: str,
        inputs: str | Mapping[str, str] | Sequence[str | Mapping[str, str]],
        *,
        timeout_s: float | None = None,
        quality: Quality | None = None,
        target: float | None = None,
        explain: bool = False,
        idempotency_key: str | None = None,
    ) -> Answer:
        """Run a model on inputs. See `Client.infer`."""
        content = infer_request(model, inputs, timeout_s, quality, target, explain, idempotency_key)
        attempt = 0
        while True:
            outcome: httpx.Response | httpx.RequestError
            try:
                outcome = await self._http.send(self._server.request(self._http, "POST", **content))
            except httpx.RequestError as error:
                outcome = error
            delay_s = delay_before_retry(outcome, self._retries, attempt, idempotent=True)
            if isinstance(outcome, httpx.Response) and delay_s is None:
                return from_json(Answer, json_of(outcome))
            await asyncio.sleep(delay_s or 0.0)
            attempt += 1

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

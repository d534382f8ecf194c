"""Sends the requests of the blocking client, again where that may help."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import httpx

from hmi_client.responses import from_json
from hmi_client.retries import Retries, delay_before_retry
from hmi_client.server import Server, http_client, json_of

T = TypeVar("T")
TIMEOUT_S = 60.0


class Connection:
    """What the methods of the client are made of: requests, pages of lists, downloads."""

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        self._server = Server(url, api_key, timeout_s)
        self._retries = retries or Retries()
        self._http = http or http_client(httpx.Client)

    @property
    def url(self) -> str:
        """The server's address."""
        return self._server.url

    def _request(
        self,
        method: str,
        path: str,
        *,
        idempotent: bool = True,
        files: Mapping[str, Path] | None = None,
        receive: Callable[[httpx.Response], object] = httpx.Response.read,
        **content: Any,
    ) -> httpx.Response:
        """Send a request (see `Server.request`) and receive the response. Raises the typed error of a
        failure.

        Only an ``idempotent`` request is sent again after a broken connection. ``files`` are opened for each
        attempt. ``receive`` reads the body of a success; an error within it counts as a broken connection.
        """
        attempt = 0
        while True:
            outcome = self._attempt(method, path, files or {}, receive, content)
            delay_s = delay_before_retry(outcome, self._retries, attempt, idempotent=idempotent)
            if isinstance(outcome, httpx.Response) and delay_s is None:
                return outcome
            time.sleep(delay_s or 0.0)
            attempt += 1

    def _attempt(
        self,
        method: str,
        path: str,
        files: Mapping[str, Path],
        receive: Callable[[httpx.Response], object],
        content: Mapping[str, Any],
    ) -> httpx.Response | httpx.RequestError:
        with ExitStack() as stack:
            opened = {name: stack.enter_context(file.open("rb")) for name, file in files.items()}
            request = self._server.request(self._http, method, path, files=opened or None, **content)
            try:
                response = self._http.send(request, stream=True)
                try:
                    if response.is_success:
                        receive(response)
                    else:
                        response.read()
                except BaseException:
                    response.close()
                    raise
            except httpx.RequestError as error:
                return error
        return response

    def stream(self, path: str, **content: Any) -> httpx.Response:
        """POST and return the response before its body, which the caller reads and closes."""
        return self._request("POST", path, receive=lambda _: None, **content)

    def _get(self, kind: type[T], path: str) -> T:
        """GET one object."""
        return from_json(kind, json_of(self._request("GET", path)))

    def _post(
        self,
        kind: type[T],
        path: str,
        body: Any = None,
        *,
        idempotency_key: str | None = None,
        timeout_s: float | None = None,
    ) -> T:
        """POST and return the object of the response. All attempts have the same Idempotency-Key, by default
        a new one, so that the server executes the request once."""
        headers = {"Idempotency-Key": idempotency_key or uuid4().hex}
        response = self._request("POST", path, json=body, headers=headers, timeout_s=timeout_s)
        return from_json(kind, json_of(response))

    def _change(self, kind: type[T], method: str, path: str, body: Any) -> T:
        """PUT or PATCH and return the object of the response."""
        return from_json(kind, json_of(self._request(method, path, json=body)))

    def _pages(
        self, kind: type[T], path: str, params: Mapping[str, str | int | None] | None = None
    ) -> Iterator[T]:
        """Yield every item of a list, following the ``next`` link of each page."""
        query: dict[str, Any] = {name: value for name, value in (params or {}).items() if value is not None}
        while True:
            page = json_of(self._request("GET", path, params=query or None))
            for item in page["results"]:
                yield from_json(kind, item)
            if not page.get("next"):
                return
            query = query_of(page["next"])

    def _save(self, path: str, to: Path, **content: Any) -> None:
        """Save the body of a response. The file ``to`` is replaced atomically, once all of it is there."""
        partial = to.with_name(f"{to.name}.part")

        def receive(response: httpx.Response) -> None:
            with partial.open("wb") as file:
                file.writelines(response.iter_bytes())

        try:
            self._request("GET", path, receive=receive, **content)
            partial.replace(to)
        finally:
            partial.unlink(missing_ok=True)


def query_of(url: str) -> dict[str, Any]:
    """The query parameters of a URL."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))

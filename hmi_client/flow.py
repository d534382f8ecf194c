"""Operations as generators, so that the blocking and the asynchronous client share one definition of each.

A *flow* does no I/O. It yields an `ApiRequest`, a `Sleep` or an `Item`; the client carries out the step and
sends the response back in (httpx's ``auth_flow`` works the same way).
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import httpx

from hmi_client.errors import HmiError
from hmi_client.responses import from_json

T = TypeVar("T")

Json = Any


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One HTTP request below ``/api/v1/``, or to a ``path`` that begins with a slash.

    Only an ``idempotent`` request is retried after a broken connection. The body of a successful response is
    streamed into ``save_to``, if given, or read by `NextEvent` if it is ``streamed``. With ``files`` the body
    is a multipart form of these and the fields of ``form``.
    """

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    json: Json = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    idempotent: bool = True
    timeout_s: float | None = None
    save_to: Path | None = None
    streamed: bool = False
    form: Mapping[str, str | list[str]] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sleep:
    """Sleep before the next step."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NextEvent:
    """The data of the next server-sent event of the streamed response, None at its end. Only in a flow with
    items."""


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """One item for the caller who iterates over the flow."""

    item: T


Step = ApiRequest | Sleep | NextEvent | Item[Any]
Flow = Generator[Step, Any, T]


class FlowRun(Generic[T]):
    """Iterates over the steps of a flow. Set ``response`` or ``error`` to the outcome of the last step.

    ``result`` is the flow's return value, once the iteration has ended.
    """

    result: T

    def __init__(self, flow: Flow[T]) -> None:
        self._flow = flow
        self.response: Any = None
        self.error: Exception | None = None

    def __iter__(self) -> "FlowRun[T]":
        return self

    def __next__(self) -> Step:
        response, error = self.response, self.error
        self.response = self.error = None
        try:
            return self._flow.send(response) if error is None else self._flow.throw(error)
        except StopIteration as end:
            self.result = end.value
        raise StopIteration


def send(request: ApiRequest) -> Flow[httpx.Response]:
    """Send a request and return its response."""
    response: httpx.Response = yield request
    return response


def as_list(values: str | Mapping[str, Any] | Iterable[T]) -> list[T]:
    """The values as a list. A string or a mapping is one value: nobody means its letters or its keys."""
    return cast("list[T]", [values] if isinstance(values, str | Mapping) else list(values))


def get(kind: type[T], path: str, **params: str | int) -> Flow[T]:
    """GET one object."""
    response = yield from send(ApiRequest("GET", path, params))
    return from_json(kind, response.json())


def post(
    path: str, body: Json = None, *, idempotency_key: str | None = None, timeout_s: float | None = None
) -> Flow[Json]:
    """POST and return the JSON of the response. All attempts have the same Idempotency-Key, by default a new
    one, so that the server executes the request once."""
    headers = {"Idempotency-Key": idempotency_key or uuid4().hex}
    response = yield from send(ApiRequest("POST", path, json=body, headers=headers, timeout_s=timeout_s))
    return response.json()


def download(request: ApiRequest, path: Path) -> Flow[None]:
    """Save the body of the response. The file at ``path`` is replaced atomically, once all of it is there."""
    partial = path.with_name(f"{path.name}.part")
    try:
        yield from send(replace(request, save_to=partial))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def paginate(kind: type[T], path: str, params: Mapping[str, str | int | None] | None = None) -> Flow[None]:
    """Yield every item of a list, following the ``next`` link of each page."""
    query: dict[str, Any] = {name: value for name, value in (params or {}).items() if value is not None}
    while True:
        response = yield from send(ApiRequest("GET", path, query))
        page = response.json()
        for item in page["results"]:
            yield Item(from_json(kind, item))
        if not page.get("next"):
            return
        query = query_of(page["next"])


def query_of(url: str) -> dict[str, Any]:
    """The query parameters of a URL."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def url_path(*parts: str | int) -> str:
    """Join names and ids to a path. HmiError if one contains a character that would change the path."""
    for part in parts:
        if not str(part) or any(sign in str(part) for sign in "/?#%\\") or str(part) in (".", ".."):
            raise HmiError(f"{part!r} is not a valid name or id.")
    return "/".join(map(str, parts))

"""How operations ask: reading, creating, changing, and going through pages."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

from hmi_client.errors import HmiError
from hmi_client.flow import Call, Flow, Item, Json, T, ask
from hmi_client.responses import from_json


def get(kind: type[T], path: str, **params: str | int) -> Flow[T]:
    """One thing."""
    response = yield from ask(Call("GET", path, params))
    return from_json(kind, response.json())


def post(
    path: str, body: Json = None, *, key: str | None = None, timeout_s: float | None = None
) -> Flow[Json]:
    """Make something, or have something done. All attempts bear one Idempotency-Key, made up if none is
    given, so that the server does it once."""
    headers = {"Idempotency-Key": key or uuid4().hex}
    response = yield from ask(Call("POST", path, json=body, headers=headers, timeout_s=timeout_s))
    return response.json()


def pages(kind: type[T], path: str, params: Mapping[str, str | int | None] | None = None) -> Flow[None]:
    """Give every item of a list, page after page; however the server marks the next one."""
    asked: dict[str, Any] = {name: value for name, value in (params or {}).items() if value is not None}
    while True:
        response = yield from ask(Call("GET", path, asked))
        page = response.json()
        for item in page["results"]:
            yield Item(from_json(kind, item))
        if not page.get("next"):
            return
        asked = dict(parse_qsl(urlsplit(page["next"]).query))


def path_of(*parts: str | int) -> str:
    """A path of these parts, none of which may reach into another."""
    for part in parts:
        if not str(part) or any(sign in str(part) for sign in "/?#%\\") or str(part) in (".", ".."):
            raise HmiError(f"{part!r} cannot be the name or id of anything.")
    return "/".join(map(str, parts))

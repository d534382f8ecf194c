"""Numbers that nobody can hold, in every numeric field and query parameter that the API describes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from django.db import transaction
from django.test import Client
from pytest_django import Settings
from redis import Redis

from inference.api.admission import close_gateway
from tests.e2e.world import World, world_build
from tests.integration.fuzz.requests import check_shape, is_no_worker
from tests.integration.routes.conf import address
from tests.integration.routes.places import in_the_tenant, on_the_platform

pytestmark = pytest.mark.slow
UNREADABLE: Final = ("1" + "0" * 400, "1e999", "NaN")
"""The reader of bodies takes these in no field: one of each route is tried."""
BEYOND: Final = (*UNREADABLE, "9223372036854775808", "-9223372036854775809")
"""No field takes these."""
LARGE: Final = ("9223372036854775807", "-1", "1e308")
"""A field may take some of these."""
OF_A_TENANT: Final = "/api/v1/tenants/{tenant}/"
PLACE: Final = "\u2603"
Schema = dict[str, Any]
PATCHED: Final = {"post", "put", "patch"}


class Door:
    """The site, asked by an administrator who owns the tenant. Whatever is changed is undone."""

    def __init__(self, world: World, described: Schema) -> None:
        self.client = Client(raise_request_exception=False)
        self.client.force_login(world.admin)
        self.described = described
        self._places = in_the_tenant(world)
        self._platform = {**self._places, **on_the_platform(world)}

    def operations(self, methods: set[str]) -> Iterator[tuple[str, str, Schema]]:
        """Each once: a view of a tenant's has an address for keys, and one below the tenant for people."""
        paths = self.described["paths"]
        for path, described in paths.items():
            if path.startswith(OF_A_TENANT) and path.replace(OF_A_TENANT, "/api/v1/") in paths:
                continue
            for method in methods & described.keys():
                yield path, method, described[method]

    def ask(self, path: str, method: str, query: str, body: str | None) -> Any:
        places = self._platform if "/platform/" in path else self._places
        where = address(path.strip("/").replace("{", "<").replace("}", ">"), places)
        asking = where + ("" if "/tenants/" in where or "/platform/" in where else "?tenant=acme")
        asking += f"{'&' if '?' in asking else '?'}{query}"
        with transaction.atomic():
            answer = self.client.generic(method.upper(), asking, body or "", "application/json")
            transaction.set_rollback(True)
        return answer

    def resolved(self, schema: Schema) -> Schema:
        while {"$ref", "allOf", "anyOf"} & schema.keys():
            if "$ref" in schema:
                schema = self.described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            else:
                schema = next(iter(schema.get("allOf") or schema["anyOf"]))
        return schema

    def numeric(self, schema: Schema) -> Iterator[tuple[str, ...]]:
        """The paths of the numbers of a body."""
        schema = self.resolved(schema)
        kinds = schema.get("type", ())
        if {"integer", "number"} & {*([kinds] if isinstance(kinds, str) else kinds)}:
            yield ()
        for name, inner in schema.get("properties", {}).items():
            yield from ((name, *rest) for rest in self.numeric(inner))


@pytest.fixture
def door(db: None, redis_client: Redis, artifact_root: Path, upload_root: Path, settings: Settings) -> Door:
    settings.HMI_RATE_MANAGE = settings.HMI_RATE_REQUESTS = 0
    close_gateway()
    world = world_build()
    described = Client().get("/api/schema/", headers={"Accept": "application/json"}).json()
    return Door(world, described)


def with_number(example: object, path: tuple[str, ...], number: str) -> str:
    """The example with a number at the path, as JSON."""
    body = json.loads(json.dumps(example)) if isinstance(example, dict) else {}
    inner = body
    for name in path[:-1]:
        inner = inner.setdefault(name, {}) if isinstance(inner.get(name, {}), dict) else {}
    inner[path[-1]] = PLACE
    return json.dumps(body, ensure_ascii=False).replace(f'"{PLACE}"', number)


def test_a_number_that_no_field_takes_is_refused_with_its_place(door: Door) -> None:
    wrong, asked = [], 0
    for path, method, operation in door.operations(PATCHED):
        media = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if media is None:
            continue
        example = media.get("example", {})
        places = [place for place in door.numeric(media["schema"]) if place]
        for place in places:
            for number in (*BEYOND[0 if place is places[0] else len(UNREADABLE) :], *LARGE):
                answer = door.ask(path, method, "", with_number(example, place, number))
                asked += 1
                is_wrong = answer.status_code >= 500 and not is_no_worker(answer, answer.content)
                if is_wrong or (number in BEYOND and not 400 <= answer.status_code < 500):
                    wrong.append((path, method, place, number[:24], answer.status_code))
                elif number in BEYOND:
                    check_shape(answer, answer.content, path)
    assert wrong == []
    assert asked > 200


def test_so_is_one_in_the_query(door: Door) -> None:
    wrong, asked = [], 0
    for path, method, operation in door.operations({"get", "delete", *PATCHED}):
        for parameter in operation.get("parameters", ()):
            if parameter["in"] != "query" or () not in door.numeric(parameter["schema"]):
                continue
            for number in (*BEYOND, *LARGE):
                answer = door.ask(path, method, f"{parameter['name']}={number}", None)
                asked += 1
                if answer.status_code >= 500 or (number in ("NaN", "1e999") and answer.status_code < 400):
                    wrong.append((path, method, parameter["name"], number[:24], answer.status_code))
    assert wrong == []
    assert asked > 50

"""What of a new description of the API is told to break old clients, and what is not."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmi_site.reference.breaking import breaking_changes

Json = Any
Change = Callable[[Json], object]

TEXT = {"type": "string", "maxLength": 50}
DOCUMENT: dict[str, Any] = {
    "paths": {
        "/things/{id}": {
            "get": {"responses": {"200": {"content": {"application/json": {"schema": {}}}}}},
            "put": {
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
                    {"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 100}},
                ],
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Asked"}},
                        "multipart/form-data": {"schema": {"$ref": "#/components/schemas/Asked"}},
                    }
                },
                "security": [{"ApiKey": []}, {"cookieAuth": []}],
                "responses": {
                    "200": {
                        "headers": {"ETag": {"required": True, "schema": {"type": "string"}}},
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}},
                    },
                    "404": {"$ref": "#/components/responses/Error404"},
                },
            },
        },
    },
    "components": {
        "responses": {
            "Error404": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
        },
        "schemas": {
            "Kind": {"enum": ["a", "b"], "type": "string"},
            "Error": {"type": "object", "properties": {"code": TEXT}, "required": ["code"]},
            "Asked": {
                "type": "object",
                "properties": {
                    "name": TEXT,
                    "kind": {"allOf": [{"$ref": "#/components/schemas/Kind"}]},
                    "size": {"type": "integer", "minimum": 1},
                    "inputs": {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "object"}]}},
                },
                "required": ["name"],
            },
            "Thing": {
                "type": "object",
                "properties": {
                    "name": TEXT,
                    "at": {"type": ["string", "null"], "format": "date-time"},
                    "kind": {"$ref": "#/components/schemas/Kind"},
                    "parent": {"$ref": "#/components/schemas/Thing"},
                    "scores": {"type": "object", "additionalProperties": {"type": "number"}},
                    "result": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
                },
                "required": ["name", "at"],
            },
        },
    },
}


def paths(document: Json) -> Json:
    return document["paths"]


def put(document: Json) -> Json:
    return document["paths"]["/things/{id}"]["put"]


def etag(document: Json) -> Json:
    return put(document)["responses"]["200"]["headers"]["ETag"]


def limit(document: Json) -> Json:
    return put(document)["parameters"][1]


def asked(document: Json) -> Json:
    return document["components"]["schemas"]["Asked"]


def thing(document: Json) -> Json:
    return document["components"]["schemas"]["Thing"]


def schemas(document: Json) -> Json:
    return document["components"]["schemas"]


BREAKING: dict[str, Change] = {
    "PUT /things/{} is gone": lambda new: paths(new)["/things/{id}"].pop("put"),
    "GET /things/{} is gone": lambda new: paths(new).clear(),
    "does not take `limit`": lambda new: put(new)["parameters"].pop(1),
    "now needs `limit`": lambda new: limit(new).update(required=True),
    "now needs `who`": lambda new: put(new)["parameters"].append(
        {"name": "who", "in": "header", "required": True}
    ),
    "`limit` has a narrower maximum: 10": lambda new: limit(new)["schema"].update(maximum=10),
    "the body is needed now": lambda new: put(new)["requestBody"].update(required=True),
    "the body is not taken": lambda new: put(new).pop("requestBody"),
    "the body is not multipart": lambda new: put(new)["requestBody"]["content"].pop("multipart/form-data"),
    "the body now needs `kind`": lambda new: asked(new)["required"].append("kind"),
    "may not have fields any more that are not named": lambda new: asked(new).update(
        additionalProperties=False
    ),
    "the body has no `size`": lambda new: asked(new)["properties"].pop("size"),
    "`size` may not be integer": lambda new: asked(new)["properties"]["size"].update(type="string"),
    "`size` has a narrower minimum: 2": lambda new: asked(new)["properties"]["size"].update(minimum=2),
    "`name` has a narrower maxLength: 9": lambda new: asked(new)["properties"]["name"].update(maxLength=9),
    "`name` has another pattern": lambda new: asked(new)["properties"]["name"].update(pattern="a+"),
    "`name` may now be one of a few": lambda new: asked(new)["properties"]["name"].update(enum=["a"]),
    "`kind` may not be ['b']": lambda new: schemas(new)["Kind"]["enum"].remove("b"),
    "may not be object": lambda new: asked(new)["properties"]["inputs"]["items"]["oneOf"].pop(),
    "does not answer 200": lambda new: put(new)["responses"].pop("200"),
    "has no `name` any more": lambda new: thing(new)["properties"].pop("name"),
    "may now lack `at`": lambda new: thing(new)["required"].remove("at"),
    "`at` has another format: None": lambda new: thing(new)["properties"]["at"].pop("format"),
    "`name` may now be null": lambda new: thing(new)["properties"]["name"].update(type=["string", "null"]),
    "`scores`, each value of it may now be string": lambda new: thing(new)["properties"]["scores"].update(
        additionalProperties={"type": "string"}
    ),
    "lost or changed an alternative: array": lambda new: thing(new)["properties"]["result"]["oneOf"].pop(),
    "place 1 of the path may not be integer": lambda new: put(new)["parameters"][0]["schema"].update(
        type="boolean"
    ),
    "place 1 of the path has another format": lambda new: put(new)["parameters"][0]["schema"].update(
        format="int64"
    ),
    "is closed to who has cookieAuth": lambda new: put(new)["security"].pop(1),
    "is closed to who has ApiKey": lambda new: put(new)["security"][0].update(second=[]),
    "has no header `ETag`": lambda new: put(new)["responses"]["200"].pop("headers"),
    "header `ETag` may now be integer": lambda new: etag(new)["schema"].update(type="integer"),
    "may now lack the header `ETag`": lambda new: etag(new).pop("required"),
    "`kind` is never ['b'] any more": lambda new: schemas(new)["Kind"]["enum"].remove("b"),
    "404 has no `code`": lambda new: schemas(new)["Error"].update(properties={}),
}


def to_two_types(new: Json) -> None:
    asked(new)["properties"]["size"].update(type=["number", "null"], minimum=0)


def to_longer_words(new: Json) -> None:
    asked(new)["properties"]["name"]["maxLength"] = 500
    schemas(new)["Kind"]["enum"].append("c")


def to_more(new: Json) -> None:
    paths(new)["/others"] = paths(new)["/things/{id}"]
    put(new)["parameters"].append({"name": "more", "in": "query", "schema": TEXT})
    put(new)["responses"]["202"] = {}
    put(new)["responses"]["200"]["headers"]["x-more"] = {"schema": TEXT}
    put(new)["security"].append({"OtherKey": []})
    asked(new)["properties"]["more"] = thing(new)["properties"]["more"] = TEXT


def to_another_name_in_the_path(new: Json) -> None:
    paths(new)["/things/{thing_id}"] = paths(new).pop("/things/{id}")
    put_there = paths(new)["/things/{thing_id}"]["put"]
    put_there["parameters"][0]["name"] = "thing_id"


def to_less_asked_for(new: Json) -> None:
    asked(new)["required"].clear()
    thing(new)["properties"]["at"]["type"] = "string"
    thing(new)["required"].append("kind")


GOES_ON: list[Change] = [
    to_two_types,
    to_longer_words,
    to_more,
    to_less_asked_for,
    to_another_name_in_the_path,
]


def changed(*changes: Change) -> Json:
    new = deepcopy(DOCUMENT)
    for change in changes:
        change(new)
    return new


@pytest.mark.parametrize("said", BREAKING)
def test_what_breaks_old_clients_is_told(said: str) -> None:
    found = breaking_changes(DOCUMENT, changed(BREAKING[said]))
    assert any(said in sentence for sentence in found), found


@given(st.lists(st.sampled_from(GOES_ON), unique=True))
def test_what_they_do_not_notice_is_not(changes: list[Change]) -> None:
    assert breaking_changes(DOCUMENT, changed(*sorted(changes, key=GOES_ON.index))) == []


@given(st.sampled_from(sorted(BREAKING)), st.lists(st.sampled_from(GOES_ON[:3]), unique=True))
def test_one_change_does_not_hide_another(said: str, others: list[Change]) -> None:
    assert breaking_changes(DOCUMENT, changed(*others, BREAKING[said])) != []

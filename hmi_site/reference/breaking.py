"""What of a newer description of the API would break a client that was written for an older one.

A client may send all that it could send, and finds all that it read. So operations, parameters, fields,
headers and statuses of success may be added; what is asked for may be asked for more loosely, and of more
callers; and a field of an answer may get words that it did not have, which clients must expect.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

Json = Mapping[str, Any]

METHODS: Final = ("get", "post", "put", "patch", "delete")
MOST: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
LEAST: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
FORMS: Final = ("format", "pattern")
TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
PARAMETER: Final = re.compile(r"{[^}]+}")
PLACES: Final = "places"
"""Beside what the document says of an operation: the names of the parameters in its path."""


class Way(Enum):
    """Where a schema stands: what clients send, or what they get."""

    SENT = "sent"
    GOT = "got"


def breaking_changes(old: Json, new: Json) -> list[str]:
    """A sentence for each change from `old` to `new`, two OpenAPI documents, that an old client could not
    take; none if it can go on as before."""
    comparison = _Comparison(old, new)
    there = dict(_operations(new))
    for name, operation in _operations(old):
        if name in there:
            comparison.operation(name, operation, there[name])
        else:
            comparison.found.append(f"{name} is gone.")
    return list(dict.fromkeys(comparison.found))


@dataclass
class _Comparison:
    old: Json
    new: Json
    found: list[str] = field(default_factory=list)
    compared: set[tuple[str, str, Way]] = field(default_factory=set)
    """Pairs of names of schemas: each is looked at once, and one that holds itself ends."""

    def operation(self, name: str, old: Json, new: Json) -> None:
        self._parameters(name, _parameters(self.old, old), _parameters(self.new, new))
        self._places(name, _places(self.old, old), _places(self.new, new))
        self._ways_in(name, _ways_in(self.old, old), _ways_in(self.new, new))
        self._body(f"{name}: the body", _body(self.old, old), _body(self.new, new))
        answers, answers_now = old["responses"], new["responses"]
        for status, answer in answers.items():
            if status in answers_now:
                now = _resolved(self.new, answers_now[status])
                where = f"{name}: the answer {status}"
                before = _resolved(self.old, answer)
                self._content(where, before, now, Way.GOT)
                self._headers(where, before.get("headers", {}), now.get("headers", {}))
            elif status.startswith("2"):
                self.found.append(f"{name} does not answer {status} any more.")

    def _parameters(self, name: str, old: Json, new: Json) -> None:
        for key, parameter in old.items():
            if key in new:
                self._schema(
                    f"{name}: `{key}`", parameter.get("schema", {}), new[key].get("schema", {}), Way.SENT
                )
            else:
                self.found.append(f"{name} does not take `{key}` any more.")
        for key, parameter in new.items():
            if parameter.get("required") and not old.get(key, {}).get("required"):
                self.found.append(f"{name} now needs `{key}`.")

    def _places(self, name: str, old: Sequence[Json], new: Sequence[Json]) -> None:
        """Parameters of the path, by their order: there are as many, since the path is the same."""
        for number, (before, now) in enumerate(zip(old, new, strict=True), 1):
            self._schema(f"{name}: place {number} of the path", before, now, Way.SENT)

    def _ways_in(self, name: str, old: Sequence[frozenset[str]], new: Sequence[frozenset[str]]) -> None:
        """Whoever has the keys for one of the old ways has those for one of the new."""
        for way in old:
            if not any(now <= way for now in new):
                self.found.append(f"{name} is closed to who has {' and '.join(sorted(way)) or 'no key'}.")

    def _headers(self, where: str, old: Json, new: Json) -> None:
        now = {name.lower(): header for name, header in new.items()}
        for name, header in old.items():
            if name.lower() not in now:
                self.found.append(f"{where} has no header `{name}` any more.")
                continue
            before, after = _resolved(self.old, header), _resolved(self.new, now[name.lower()])
            self._schema(
                f"{where}, header `{name}`", before.get("schema", {}), after.get("schema", {}), Way.GOT
            )
            if before.get("required") and not after.get("required"):
                self.found.append(f"{where} may now lack the header `{name}`.")

    def _body(self, where: str, old: Json | None, new: Json | None) -> None:
        if new is None:
            if old is not None:
                self.found.append(f"{where} is not taken any more.")
            return
        if new.get("required") and not (old or {}).get("required"):
            self.found.append(f"{where} is needed now.")
        if old is not None:
            self._content(where, old, new, Way.SENT)

    def _content(self, where: str, old: Json, new: Json, way: Way) -> None:
        now = new.get("content", {})
        for kind, content in old.get("content", {}).items():
            if kind in now:
                self._schema(where, content.get("schema", {}), now[kind].get("schema", {}), way)
            else:
                self.found.append(f"{where} is not {kind} any more.")

    def _schema(self, where: str, old: Json, new: Json, way: Way) -> None:
        if "$ref" in old and "$ref" in new:
            pair = old["$ref"], new["$ref"], way
            if pair in self.compared:
                return
            self.compared.add(pair)
        old, new = _whole(self.old, old), _whole(self.new, new)
        self._types(where, _types(self.old, old), _types(self.new, new), way)
        self._values(where, old, new, way)
        self._fields(where, old, new, way)
        self._alternatives(where, old, new, way)
        for inner, said in (("items", "each of"), ("additionalProperties", "each value of")):
            if isinstance(old.get(inner), Mapping) and isinstance(new.get(inner), Mapping):
                self._schema(f"{where}, {said} it", old[inner], new[inner], way)

    def _types(self, where: str, old: frozenset[str], new: frozenset[str], way: Way) -> None:
        lacking = _beyond(old, new) if way is Way.SENT else _beyond(new, old)
        if lacking:
            said = "may not be" if way is Way.SENT else "may now be"
            self.found.append(f"{where} {said} {' or '.join(sorted(lacking))}.")

    def _values(self, where: str, old: Json, new: Json, way: Way) -> None:
        for form in FORMS:
            if old.get(form) != new.get(form) and (form in new if way is Way.SENT else form in old):
                self.found.append(f"{where} has another {form}: {new.get(form)}.")
        gone = [value for value in old.get("enum", ()) if value not in new.get("enum", old["enum"])]
        if way is Way.GOT:
            if gone:
                self.found.append(f"{where} is never {gone} any more.")
            return
        if "enum" in new and "enum" not in old:
            self.found.append(f"{where} may now be one of a few values only.")
        elif gone:
            self.found.append(f"{where} may not be {gone} any more.")
        for bound, sign in (*((name, 1) for name in MOST), *((name, -1) for name in LEAST)):
            if bound in new and (bound not in old or sign * new[bound] < sign * old[bound]):
                self.found.append(f"{where} has a narrower {bound}: {new[bound]}.")

    def _fields(self, where: str, old: Json, new: Json, way: Way) -> None:
        fields, fields_now = old.get("properties", {}), new.get("properties", {})
        needed, needed_now = set(old.get("required", [])), set(new.get("required", []))
        for name, schema in fields.items():
            if name in fields_now:
                self._schema(f"{where}, `{name}`", schema, fields_now[name], way)
            else:
                self.found.append(f"{where} has no `{name}` any more.")
        if way is Way.SENT:
            if new.get("additionalProperties") is False and old.get("additionalProperties") is not False:
                self.found.append(f"{where} may not have fields any more that are not named.")
            self.found += [f"{where} now needs `{name}`." for name in sorted(needed_now - needed)]
        else:
            lost = sorted((needed - needed_now) & fields_now.keys())
            self.found += [f"{where} may now lack `{name}`." for name in lost]

    def _alternatives(self, where: str, old: Json, new: Json, way: Way) -> None:
        """Each that was there must still be; which one it has become does not matter."""
        now = list(_alternatives(new)) or [new]
        for alternative in _alternatives(old):
            if not any(self._same(alternative, candidate, way) for candidate in now):
                name = alternative.get("$ref", "").rpartition("/")[2] or alternative.get("type", "one")
                self.found.append(f"{where} has lost or changed an alternative: {name}.")

    def _same(self, old: Json, new: Json, way: Way) -> bool:
        tried = _Comparison(self.old, self.new, compared=set(self.compared))
        tried._schema("", old, new, way)
        return not tried.found


def _operations(document: Json) -> Iterator[tuple[str, Json]]:
    """What a parameter of a path is called, clients do not see."""
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                places = [name.strip("{}") for name in PARAMETER.findall(path)]
                yield f"{method.upper()} {PARAMETER.sub('{}', path)}", {**item[method], PLACES: places}


def _parameters(document: Json, operation: Json) -> dict[str, Json]:
    found = (_resolved(document, parameter) for parameter in operation.get("parameters", []))
    return {parameter["name"]: parameter for parameter in found if parameter["in"] != "path"}


def _places(document: Json, operation: Json) -> list[Json]:
    """The schemas of the parameters of its path, in their order there."""
    found = (_resolved(document, parameter) for parameter in operation.get("parameters", []))
    schemas = {one["name"]: one.get("schema", {}) for one in found if one["in"] == "path"}
    return [schemas.get(name, {}) for name in operation[PLACES]]


def _ways_in(document: Json, operation: Json) -> list[frozenset[str]]:
    """What lets a caller in: each the schemes needed together; one that is empty is for everybody."""
    said = operation.get("security", document.get("security", [{}]))
    return [frozenset(way) for way in said] or [frozenset()]


def _body(document: Json, operation: Json) -> Json | None:
    body = operation.get("requestBody")
    return None if body is None else _resolved(document, body)


def _resolved(document: Json, found: Json) -> Json:
    while "$ref" in found:
        place: Any = document
        for part in found["$ref"].removeprefix("#/").split("/"):
            place = place[part]
        found = place
    return found


def _whole(document: Json, schema: Json) -> Json:
    """The schema, with what it is `allOf` put into it."""
    schema = _resolved(document, schema)
    if "allOf" not in schema:
        return schema
    merged: dict[str, Any] = {"properties": {}, "required": []}
    for part in (*schema["allOf"], {key: value for key, value in schema.items() if key != "allOf"}):
        whole = _whole(document, part)
        fields, needed = whole.get("properties", {}), whole.get("required", [])
        merged = {
            **merged,
            **whole,
            "properties": merged["properties"] | fields,
            "required": [*merged["required"], *needed],
        }
    return merged


def _types(document: Json, schema: Json) -> frozenset[str]:
    if alternatives := list(_alternatives(schema)):
        return frozenset().union(*(_types(document, _whole(document, one)) for one in alternatives))
    if "type" in schema:
        said = schema["type"]
        return frozenset([said] if isinstance(said, str) else said)
    if "enum" in schema:
        return frozenset(map(_type_of, schema["enum"]))
    return TYPES


def _type_of(value: object) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return names.get(type(value), "object")


def _alternatives(schema: Json) -> Iterator[Json]:
    yield from schema.get("oneOf", ())
    yield from schema.get("anyOf", ())


def _beyond(some: Iterable[str], others: frozenset[str]) -> set[str]:
    """The types among `some` that are none of `others`; a whole number is a number."""
    return {kind for kind in some if kind not in others and not (kind == "integer" and "number" in others)}

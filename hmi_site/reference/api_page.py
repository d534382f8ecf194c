"""The page of the API's reference: every request and every shape, from the OpenAPI document."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hmi_site.reference.breaking import METHODS

Json = Mapping[str, Any]

HEAD: Final = """# Reference of the API

Made from the code by `make reference`; what the requests are for is in [the guide](api.md).
The same as OpenAPI 3.1 is at `/api/schema/` of a running copy, and with forms to try it at `/api/docs/`.

What stands below `/api/v1/tenants/{tenant}/` stands below `/api/v1/` as well, for keys, which know their
tenant; it is written here once, in its short form. Besides what a request names, it may be answered with the
[errors that all have in common](errors.md), in the shape [Error](#error).
"""
OF_A_TENANT: Final = "/api/v1/tenants/{tenant}/"
PREFIX: Final = "/api/v1/"
SHARED: Final = "#/components/responses/"


def api_page(document: Json) -> str:
    """The page as Markdown."""
    parts = [HEAD, *_requests(document), "## Shapes\n", *_shapes(document["components"]["schemas"])]
    return "\n".join(parts).rstrip() + "\n"


def _requests(document: Json) -> Iterator[str]:
    section = ""
    for path in sorted(document["paths"], key=_place):
        short = path.replace(OF_A_TENANT, PREFIX)
        if short != path and short in document["paths"]:
            continue
        if section != (section := _section(path)):
            yield f"## {section}\n"
        for method in METHODS:
            if method in document["paths"][path]:
                yield from _request(f"{method.upper()} {path}", document["paths"][path][method])


def _place(path: str) -> tuple[bool, str, str]:
    return not path.startswith(PREFIX), _section(path), path


def _section(path: str) -> str:
    """The first word of the address: what it is about."""
    if not path.startswith(PREFIX):
        return f"/{path.split('/')[1]}"
    return path.removeprefix(PREFIX).split("/")[0]


def _request(title: str, operation: Json) -> Iterator[str]:
    yield f"### {title}\n"
    if said := operation.get("description"):
        yield f"{_line(said)}\n"
    asked = [
        (
            f"`{one['name']}`",
            one["in"],
            _type(one.get("schema", {})),
            "needed" if one.get("required") else "",
            _said(one),
        )
        for one in operation.get("parameters", ())
    ]
    if asked:
        yield _table(("parameter", "in", "type", "", ""), asked)
    bodies: dict[str, list[str]] = {}
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        bodies.setdefault(_type(content.get("schema", {})), []).append(f"`{kind}`")
    yield from (f"- Body: {shape} as {' or '.join(kinds)}" for shape, kinds in bodies.items())
    for status, answer in sorted(operation["responses"].items()):
        if not answer.get("$ref", "").startswith(SHARED):
            yield f"- {status}: {_answer(answer)}"
    yield ""


def _answer(answer: Json) -> str:
    shapes = dict.fromkeys(_type(content.get("schema", {})) for content in answer.get("content", {}).values())
    said = _line(answer.get("description", ""))
    return ", ".join(filter(None, [*shapes, said])) or "nothing"


def _shapes(schemas: Json) -> Iterator[str]:
    for name, schema in sorted(schemas.items(), key=lambda item: item[0].lower()):
        yield f"### {name}\n"
        if said := schema.get("description"):
            yield f"{_line(said)}\n"
        if fields := schema.get("properties"):
            needed, word = schema.get("required", ()), "needed" if name.endswith("Request") else "always"
            rows = [
                (f"`{field}`", _type(about), word if field in needed else "", _said(about))
                for field, about in fields.items()
            ]
            yield _table(("field", "type", "", ""), rows)
        else:
            yield f"{_type(schema)}\n"


def _type(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several, between in (("allOf", " and "), ("oneOf", " or "), ("anyOf", " or ")):
        if several in schema:
            return between.join(dict.fromkeys(map(_type, schema[several])))
    if "enum" in schema:
        return ", ".join(f"`{_word(value)}`" for value in schema["enum"])
    kinds = schema.get("type", "anything")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(_named(kind, schema) for kind in kinds)


def _named(kind: str, schema: Json) -> str:
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(inner := schema.get("additionalProperties"), Mapping) and inner:
        return f"object of {_type(inner)}"
    form = schema.get("format")
    return f"{kind} ({form})" if form and kind != "null" else kind


def _word(value: object) -> str:
    return "null" if value is None else str(value)


def _said(about: Json) -> str:
    said = [_line(about["description"])] if about.get("description") else []
    if "default" in about:
        said.append(f"Otherwise `{_word(about['default'])}`.")
    return " ".join(said).replace("|", "\\|")


def _line(text: str) -> str:
    return " ".join(text.split())


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"

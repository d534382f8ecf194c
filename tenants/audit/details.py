"""Details of audit events as text."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tenants.base.file_sizes import file_size

FROM, TO = "from", "to"
BYTES: Final = "_bytes"


def change(before: object, after: object) -> dict[str, object]:
    """The detail of a field that changed."""
    return {FROM: before, TO: after}


def detail_lines(detail: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The name and the text of each detail. A field that changed reads "from 50 to 70".

    Events that only rename something have the two names and nothing else.
    """
    if detail.keys() == {FROM, TO}:
        detail = {"name": detail}
    for name, value in detail.items():
        yield name.removesuffix(BYTES).replace("_", " "), _text(value, is_size=name.endswith(BYTES))


def _text(value: Any, *, is_size: bool = False) -> str:
    match value:
        case {"from": before, "to": after, **others} if not others:
            return f"from {_text(before, is_size=is_size)} to {_text(after, is_size=is_size)}"
        case Mapping():
            return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
        case list():
            return ", ".join(map(_text, value))
        case None | "":
            return "none"
        case bool():
            return "on" if value else "off"
        case int() if is_size:
            return file_size(value)
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)

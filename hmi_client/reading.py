"""Dataclasses from the server's JSON. What a class does not know is left out, so that this client goes on
working with a newer server; what the server does not send has the class's default."""

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def read(kind: type[T], data: Mapping[str, Any]) -> T:
    """An instance of a dataclass."""
    known = _hints(cast("Hashable", kind))
    return kind(**{name: _value(known[name], value) for name, value in data.items() if name in known})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _value(hint: Any, value: Any) -> Any:
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return read(hint, value)
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_value(get_args(hint)[0], item) for item in value)
    return value

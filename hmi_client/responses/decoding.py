"""Build the dataclasses of the API's objects from JSON."""

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

Json = dict[str, Any]
T = TypeVar("T")


def from_json(kind: type[T], data: Mapping[str, Any]) -> T:
    """Build a dataclass from JSON."""
    known = _hints(cast("Hashable", kind))
    return kind(**{name: _value(known[name], value) for name, value in data.items() if name in known})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _value(hint: Any, value: Any) -> Any:
    if isinstance(hint, UnionType) and value is not None:
        hint = get_args(hint)[0]
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return from_json(hint, value)
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_value(get_args(hint)[0], item) for item in value)
    return value

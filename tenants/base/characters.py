"""Characters that PostgreSQL cannot store, in what a request sends: NUL and unpaired surrogates."""

from collections.abc import Iterable
from typing import Any, Final

from django.utils.datastructures import MultiValueDict

from tenants.base.errors import ErrorCode, HmiError

MAX_KEY_LENGTH: Final = 64
"""Longer keys are shortened in error messages."""

Path = tuple[Any, object]
"""The path of the parent (None at the top), and a key or index. Joined to a string only for an error."""


def check_fields(fields: MultiValueDict[str, str]) -> None:
    """`check_characters` of the fields of a form. ``param`` is the name of the field."""
    check_characters({name: "".join(values) for name, values in fields.lists()})


def check_characters(data: object) -> None:
    """Raise `invalid_encoding` for a NUL character or an unpaired surrogate in any string.

    ``param`` is the path of the string. For a key that no response can hold, it is the path of its object.
    """
    stack: list[tuple[Path | None, object]] = [(None, data)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            if not _is_storable(value):
                raise _encoding_error(path)
        elif isinstance(value, dict):
            for key in value:
                if not _is_storable(key):
                    raise _encoding_error((path, key) if _is_encodable(key) else path)
            stack += _children(path, value.items())
        elif isinstance(value, list):
            stack += _children(path, enumerate(value))


def _children(path: Path | None, items: Iterable[tuple[object, object]]) -> Iterable[tuple[Path, object]]:
    return (((path, key), value) for key, value in items if isinstance(value, str | dict | list))


def _encoding_error(path: Path | None) -> HmiError:
    keys: list[str] = []
    while path is not None:
        path, key = path
        keys.insert(0, str(key)[:MAX_KEY_LENGTH])
    message = "The text contains a NUL character or an unpaired surrogate."
    return HmiError(ErrorCode.INVALID_ENCODING, message, param=".".join(keys) or None)


def _is_storable(text: str) -> bool:
    return "\0" not in text and _is_encodable(text)


def _is_encodable(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

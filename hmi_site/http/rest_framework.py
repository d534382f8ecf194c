"""DRF's parser and metadata for this API: strict JSON of bounded size."""

from collections.abc import Iterable, Mapping
from typing import IO, Any, Final

from django.conf import settings
from rest_framework.metadata import SimpleMetadata
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from inference.api.parsers import read_json
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import SMALL_BODY_BYTES, release_database

MAX_KEY_LENGTH: Final = 64
"""Longer keys are shortened in error messages."""

Path = tuple[Any, object]
"""The path of the parent (None at the top), and a key or index. Joined to a string only for an error."""


class StrictJSONParser(BaseParser):
    """Parses a body without holding a database connection: a slow client may take minutes.

    Raises `invalid_json`, `invalid_encoding` or `body_too_large`, with the path of the error.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        release_database()
        data = read_json(stream, most_bytes=min(SMALL_BODY_BYTES, settings.HMI_MAX_BODY_BYTES))
        check_characters(data)
        return data


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


class AllowedMethods(SimpleMetadata):
    """OPTIONS: the description and the methods. Fields are in the OpenAPI schema only.

    DRF would look up the object to list its fields, and it may not exist.
    """

    def determine_actions(self, request: Request, view: Any) -> dict[str, Any]:
        return {}

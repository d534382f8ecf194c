"""JSON bodies of the API: strict, bounded, and free of characters that nothing behind can store."""

from collections.abc import Iterable, Mapping
from typing import IO, Any, Final

from django.conf import settings
from rest_framework.metadata import SimpleMetadata
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from inference.api.parsers import read_json
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import SMALL_BODY_BYTES, release_database

LONGEST_NAME_SHOWN: Final = 64


Place = tuple[Any, object]
"""The place around it (None at the top), and the key or the number there: a path is written out only for an
error."""


class StrictJSONParser(BaseParser):
    """Reads without a connection to the database: a client may take minutes over a body. Raises
    `invalid_json`, `invalid_encoding` or `body_too_large`, saying where."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The parsed body."""
        release_database()
        data = read_json(stream, most_bytes=min(SMALL_BODY_BYTES, settings.HMI_MAX_BODY_BYTES))
        refuse_bad_characters(data)
        return data


def refuse_bad_characters(data: object) -> None:
    """Raise `invalid_encoding` for a NUL or half of a surrogate pair in any text, naming its place: of a name
    that no answer could hold, the object that has it."""
    waiting: list[tuple[Place | None, object]] = [(None, data)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            if not _storable(value):
                raise _bad_text(place)
        elif isinstance(value, dict):
            for key in value:
                if not _storable(key):
                    raise _bad_text((place, key) if _encodable(key) else place)
            waiting += _within(place, value.items())
        elif isinstance(value, list):
            waiting += _within(place, enumerate(value))


def _within(place: Place | None, items: Iterable[tuple[object, object]]) -> Iterable[tuple[Place, object]]:
    return (((place, key), value) for key, value in items if isinstance(value, str | dict | list))


def _bad_text(place: Place | None) -> HmiError:
    path: list[str] = []
    while place is not None:
        place, key = place
        path.insert(0, str(key)[:LONGEST_NAME_SHOWN])
    message = "The text holds a NUL character or half of a surrogate pair."
    return HmiError(ErrorCode.INVALID_ENCODING, message, param=".".join(path) or None)


def _storable(text: str) -> bool:
    return "\0" not in text and _encodable(text)


def _encodable(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


class AllowedMethods(SimpleMetadata):
    """What the address is for and, in the header ``Allow``, which methods it has. What they take is in the
    description of the API; to find it out here, things would have to be looked up that may not be there."""

    def determine_actions(self, request: Request, view: Any) -> dict[str, Any]:
        """None: then nothing is said of them."""
        return {}

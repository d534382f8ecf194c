"""JSON bodies of the API: strict, bounded, and free of characters that nothing behind can store."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from inference.api.parsers import read_json
from tenants.errors import ErrorCode, HmiError
from tenants.receiving import release_database


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
        data = read_json(stream)
        refuse_bad_characters(data)
        return data


def refuse_bad_characters(data: object) -> None:
    """Raise `invalid_encoding` for a NUL or half of a surrogate pair in any text, naming its place: of a name
    that no answer could hold, the object that has it."""
    waiting: list[tuple[str, object]] = [("", data)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, str):
            _refuse_bad_text(value, place)
        elif isinstance(value, dict):
            for key, item in value.items():
                within = f"{place}.{key}".lstrip(".")
                _refuse_bad_text(key, within if _encodable(key) else place)
                waiting.append((within, item))
        elif isinstance(value, list):
            waiting += [(f"{place}.{index}".lstrip("."), item) for index, item in enumerate(value)]


def _refuse_bad_text(text: str, place: str) -> None:
    if "\0" in text or not _encodable(text):
        message = "The text holds a NUL character or half of a surrogate pair."
        raise HmiError(ErrorCode.INVALID_ENCODING, message, param=place or None)


def _encodable(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

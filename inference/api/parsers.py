"""Reading an infer request's body: bounded, strictly UTF-8, strictly JSON."""

import json
from collections.abc import Mapping
from typing import IO, Any, Final, NoReturn

from django.conf import settings
from rest_framework.parsers import BaseParser

from inference.api.admission import check_body_size
from tenants.errors import ErrorCode, HmiError
from tenants.receiving import release_database


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def read_json(stream: IO[bytes]) -> object:
    """`parse_json` of the stream, of which at most the allowed bytes are read, whatever the headers claim."""
    raw = stream.read(settings.HMI_MAX_BODY_BYTES + 1)
    check_body_size(len(raw))
    return parse_json(raw)


def parse_json(raw: bytes) -> object:
    """The value that `raw` spells, or `invalid_encoding` or `invalid_json` saying where it breaks."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"The body is not valid UTF-8 (byte {error.start})."
        raise HmiError(ErrorCode.INVALID_ENCODING, message, details={"byte": error.start}) from None
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        message = f"The body is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        details = {"line": error.lineno, "column": error.colno}
        raise HmiError(ErrorCode.INVALID_JSON, message, details=details) from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise HmiError(ErrorCode.INVALID_JSON, f"The body is not valid JSON: {reason}.") from None


class InferBodyParser(BaseParser):
    """Takes the body as JSON whatever its content type says: `curl -d` sends a form's."""

    media_type = "*/*"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The value that the body spells. Whoever sends it slowly holds no connection to the database."""
        release_database()
        return read_json(stream)

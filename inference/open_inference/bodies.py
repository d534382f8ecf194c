"""Bodies of the Open Inference Protocol: perhaps compressed; JSON, perhaps with bytes behind it."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from django.conf import settings
from rest_framework.parsers import BaseParser

from inference.api.admission import check_body_size
from inference.api.inputs import invalid
from inference.api.large_bodies import hold
from inference.api.parsers import parse_json
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import release_database

JSON_LENGTH: Final = "Inference-Header-Content-Length"


MAX_DIGITS: Final = 12


IDENTITY: Final = "identity"


# The names of HTTP, and what zlib calls them.
FORMATS: Final = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True, slots=True)
class Body:
    """The JSON value, and the bytes of tensors behind it."""

    value: object
    tensors: memoryview


class OipBodyParser(BaseParser):
    """Takes every body for one of the protocol, whatever its content type says; its value is a `Body`."""

    media_type = "*/*"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Reads at most the allowed bytes, whatever the headers claim. Whoever sends them slowly holds no
        connection to the database."""
        release_database()
        raw = stream.read(settings.HMI_MAX_BODY_BYTES + 1)
        check_body_size(len(raw))
        hold(len(raw))
        headers: Mapping[str, str] = parser_context["request"].headers if parser_context else {}
        return read_body(raw, encoding=headers.get("Content-Encoding"), json_length=headers.get(JSON_LENGTH))


def read_body(raw: bytes, *, encoding: str | None = None, json_length: str | None = None) -> Body:
    """What `raw` is, with these headers. Raises `body_too_large`, `unsupported_type` (of compression),
    `invalid_encoding`, `invalid_json` and `invalid_field`."""
    plain = decompressed(raw, encoding)
    if json_length is None:
        return Body(parse_json(plain), memoryview(b""))
    length = _length(json_length, len(plain))
    return Body(parse_json(plain[:length]), memoryview(plain)[length:])


def decompressed(raw: bytes, encoding: str | None) -> bytes:
    """The content, of which no more is ever made than one body may have."""
    name = (encoding or IDENTITY).strip().lower()
    if name == IDENTITY:
        return raw
    if name not in FORMATS:
        message = f"The body is compressed in another way than {' or '.join(FORMATS)}."
        details = {"accepted": [*FORMATS, IDENTITY]}
        raise HmiError(ErrorCode.UNSUPPORTED_TYPE, message, param="Content-Encoding", details=details)
    unpack = zlib.decompressobj(FORMATS[name])
    try:
        plain = unpack.decompress(raw, settings.HMI_MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise invalid("Content-Encoding", f"The body is not valid {name}: {error}.") from None
    check_body_size(len(plain))
    hold(len(plain))
    if not unpack.eof or unpack.unused_data:
        what = "goes on behind its end" if unpack.eof else "breaks off"
        raise invalid("Content-Encoding", f"The body is not valid {name}: it {what}.")
    return plain


def _length(header: str, size: int) -> int:
    if not (header.isascii() and header.isdecimal() and len(header) <= MAX_DIGITS):
        raise invalid(JSON_LENGTH, f"The header {JSON_LENGTH} must be a number of bytes.")
    length = int(header)
    if length > size:
        raise invalid(JSON_LENGTH, f"The header {JSON_LENGTH} says {length:,} bytes; the body has {size:,}.")
    return length


PREFIX: Final = "/v2/"


BAD_REQUEST: Final = 400


UNPROCESSABLE: Final = 422


def speaks_oip(path: str) -> bool:
    """Whether whoever asks at this address expects the protocol."""
    return f"{path}/".startswith(PREFIX)


def oip_status(error: HmiError) -> int:
    """The HTTP status of the error."""
    return BAD_REQUEST if error.status == UNPROCESSABLE else error.status


def oip_error(error: HmiError) -> dict[str, str]:
    """The JSON value of the error."""
    return {"error": error.message}

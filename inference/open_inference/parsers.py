"""Parser of request bodies: JSON, with binary tensors behind it or not, compressed or not."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from django.conf import settings
from rest_framework.parsers import BaseParser

from inference.api.parsers import hold
from inference.api.validation import check_body_size, invalid
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.strict_json import parse_json
from tenants.base.upload_concurrency import release_database

JSON_LENGTH: Final = "Inference-Header-Content-Length"
"""The header with the number of JSON bytes at the start of the body."""
MAX_DIGITS: Final = 12
IDENTITY: Final = "identity"
ZLIB_WBITS: Final = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True, slots=True)
class Body:
    """A request body: its JSON value, and the bytes of the binary tensors behind it."""

    value: object
    tensors: memoryview


class OipBodyParser(BaseParser):
    """Parses every body as a `Body`, whatever its content type says."""

    media_type = "*/*"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Read at most the allowed bytes, whatever the headers claim.

        The database connection is released first, so that slow clients do not hold it.
        """
        release_database()
        raw = stream.read(settings.HMI_MAX_BODY_BYTES + 1)
        check_body_size(len(raw))
        hold(len(raw))
        headers: Mapping[str, str] = parser_context["request"].headers if parser_context else {}
        return read_body(raw, encoding=headers.get("Content-Encoding"), json_length=headers.get(JSON_LENGTH))


def read_body(raw: bytes, *, encoding: str | None = None, json_length: str | None = None) -> Body:
    """Parse a body with the values of its two headers. Raises `body_too_large`, `unsupported_type` (of
    compression), `invalid_encoding`, `invalid_json` and `invalid_field`."""
    plain = decompressed(raw, encoding)
    if json_length is None:
        return Body(parse_json(plain), memoryview(b""))
    length = _parse_length(json_length, len(plain))
    return Body(parse_json(plain[:length]), memoryview(plain)[length:])


def decompressed(raw: bytes, encoding: str | None) -> bytes:
    """The decompressed body. Decompression stops at the largest allowed body."""
    name = (encoding or IDENTITY).strip().lower()
    if name == IDENTITY:
        return raw
    if name not in ZLIB_WBITS:
        message = f"The compression of the body must be {' or '.join(ZLIB_WBITS)}."
        details = {"accepted": [*ZLIB_WBITS, IDENTITY]}
        raise HmiError(ErrorCode.UNSUPPORTED_TYPE, message, param="Content-Encoding", details=details)
    decompressor = zlib.decompressobj(ZLIB_WBITS[name])
    try:
        plain = decompressor.decompress(raw, settings.HMI_MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise invalid("Content-Encoding", f"The body is not valid {name}: {error}.") from None
    check_body_size(len(plain))
    hold(len(plain))
    if not decompressor.eof or decompressor.unused_data:
        what = "continues after its end" if decompressor.eof else "is truncated"
        raise invalid("Content-Encoding", f"The body is not valid {name}: it {what}.")
    return plain


def _parse_length(header: str, size: int) -> int:
    if not (header.isascii() and header.isdecimal() and len(header) <= MAX_DIGITS):
        raise invalid(JSON_LENGTH, f"The header {JSON_LENGTH} must be a number of bytes.")
    length = int(header)
    if length > size:
        raise invalid(JSON_LENGTH, f"The header {JSON_LENGTH} says {length:,} bytes; the body has {size:,}.")
    return length

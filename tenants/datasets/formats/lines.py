"""Lines of a UTF-8 file, one at a time, with every fault located."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.detect import HEAD_BYTES, refuse_binary
from tenants.datasets.formats.failures import bad_file

LONGEST_LINE_BYTES = 8 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was received: where it lies, and what its owner calls it."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end; ``number`` counts from 1."""

    number: int
    text: str


def read_lines(source: Source, *, longest: int = LONGEST_LINE_BYTES) -> Iterator[Line]:
    """The lines of the file, blank ones too.

    Line ends are ``\\n``, ``\\r\\n`` or ``\\r``; a byte order mark at the beginning is dropped.

    Raises ``not_text``, ``invalid_encoding`` (with line and byte offset) or ``line_too_long`` (in bytes).
    """
    with source.path.open("rb") as stream:
        refuse_binary(stream.read(HEAD_BYTES), file=source.name)
        stream.seek(0)
        offset = 0
        number = 0
        while raw := stream.readline(longest + 1):
            if len(raw) > longest:
                raise bad_file(
                    ErrorCode.LINE_TOO_LONG,
                    f"this line is longer than {longest:,} bytes.",
                    file=source.name,
                    line=number + 1,
                    limit=longest,
                )
            text = _decode(raw, offset, number + 1, source.name)
            offset += len(raw)
            for part in _parts(text):
                number += 1
                yield Line(number, part)


def _parts(text: str) -> list[str]:
    return text.removesuffix("\n").removesuffix("\r").split("\r")


def _decode(raw: bytes, offset: int, number: int, file: str) -> str:
    if offset == 0 and raw.startswith(BYTE_ORDER_MARK):
        raw, offset = raw[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
    nul = raw.find(b"\0")
    if nul >= 0:
        raise bad_file(
            ErrorCode.NOT_TEXT,
            f"byte {offset + nul} is NUL, which no text contains.",
            file=file,
            line=number,
            byte=offset + nul,
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        at = offset + error.start
        raise bad_file(
            ErrorCode.INVALID_ENCODING,
            f"byte {at} (0x{raw[error.start]:02x}) is not valid UTF-8; save the file as UTF-8.",
            file=file,
            line=number,
            byte=at,
        ) from error

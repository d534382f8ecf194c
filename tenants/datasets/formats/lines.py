"""Lines of a UTF-8 file, one at a time, with every fault located."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
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


WORD = re.compile(r"\w+")


def folded(text: str) -> str:
    """The text in lower case and one Unicode form, parted by single spaces; its signs stay."""
    # For ASCII both come to the same; it is most of what there is, and much faster.
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return " ".join(plain.split())


def normalise(text: str) -> str:
    """The words of the text in lower case, parted by single spaces; a text without words keeps its signs."""
    plain = folded(text)
    return " ".join(WORD.findall(plain)) or plain


def fingerprint(*texts: str) -> int:
    """64 bits of a hash of the normalised texts, the same on every machine and at every time.

    Letter case, spacing, punctuation and Unicode forms do not matter: so leaks are found. Among a million
    texts two differing ones share it with probability below 1e-7.
    """
    return _hash(*map(normalise, texts))


def exact_print(*texts: str) -> int:
    """As ``fingerprint``, but punctuation matters: signs may mark what a row asks about."""
    return _hash(*map(folded, texts))


def _hash(*texts: str) -> int:
    return int.from_bytes(blake2b("\0".join(texts).encode(), digest_size=8).digest(), "big")

"""Reads lines of UTF-8 text files. Refuses binary files, and compares texts by fingerprint."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

import regex

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.normalization import unicode_form

MAX_LINE_BYTES = 8 * 1024 * 1024


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


REPORT_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """A received file: its path on this server, and its owner's name for it.

    ``on_read`` is called about every ``REPORT_BYTES`` with the bytes that were read. What it raises ends the
    reading.
    """

    path: Path
    name: str
    on_read: Callable[[int], object] = field(default=lambda _: None, compare=False)


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end; ``number`` counts from 1."""

    number: int
    text: str


def read_lines(source: Source, *, max_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """The lines of the file, including blank ones.

    Line ends are ``\\n``, ``\\r\\n`` or ``\\r``. A byte order mark at the start is dropped.

    Raises ``not_text``, ``invalid_encoding`` (with line and byte offset) or ``line_too_long`` (in bytes).
    """
    with source.path.open("rb") as stream:
        check_is_text(stream.read(HEAD_BYTES), file=source.name)
        stream.seek(0)
        offset = 0
        number = 0
        report_at = 0
        while raw := stream.readline(max_bytes + 1):
            if offset >= report_at:
                source.on_read(offset)
                report_at = offset + REPORT_BYTES
            if len(raw) > max_bytes:
                raise file_error(
                    ErrorCode.LINE_TOO_LONG,
                    f"this line is longer than {max_bytes:,} bytes.",
                    file=source.name,
                    line=number + 1,
                    limit=max_bytes,
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
        raise file_error(
            ErrorCode.NOT_TEXT,
            f"byte {offset + nul} is NUL, which is not allowed in text.",
            file=file,
            line=number,
            byte=offset + nul,
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        at = offset + error.start
        raise file_error(
            ErrorCode.INVALID_ENCODING,
            f"byte {at} (0x{raw[error.start]:02x}) is not valid UTF-8; save the file as UTF-8.",
            file=file,
            line=number,
            byte=at,
        ) from error


WORD = regex.compile(r"[\p{L}\p{M}\p{N}\p{So}\p{Sc}\p{Sm}_#]+")
"""Letters with their marks, digits, symbols and ``#``: C, C++ and C# differ. Punctuation is no part of it."""
ASCII_WORD = re.compile(r"[\w#$+<=>|~]+", re.ASCII)
"""The same in ASCII, where most texts are, in half the time."""
_PIECE_CHARACTERS: Final = 1 << 16
INVISIBLE = regex.compile(r"\p{Cf}+")


def folded(text: str) -> str:
    """The text in lower case and NFKC, with single spaces. Punctuation stays."""
    return _joined(map(_folded, _pieces(text)))


def _folded(text: str) -> str:
    # For ASCII both give the same; most texts are ASCII, and this is much faster.
    plain = text.lower() if text.isascii() else unicode_form("NFKC", text).casefold()
    return " ".join(plain.split())


def normalise(text: str) -> str:
    """The words of the text in lower case, with single spaces. A text without words keeps its punctuation."""
    return _joined(map(_words, _pieces(text))) or folded(text)


def _words(text: str) -> str:
    plain = _folded(text)
    return " ".join(ASCII_WORD.findall(plain) if plain.isascii() else WORD.findall(INVISIBLE.sub("", plain)))


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that end before a space, if there is one: what is done with a piece holds Python's
    lock, and some characters become eighteen."""
    start = 0
    while len(text) - start > _PIECE_CHARACTERS:
        end = start + _PIECE_CHARACTERS
        if (space := text.rfind(" ", start + 1, end)) > 0:
            end = space
        yield text[start:end]
        start = end
    yield text[start:]


def _joined(parts: Iterable[str]) -> str:
    return " ".join(filter(None, parts))


def fingerprint(*texts: str) -> int:
    """A stable 64-bit hash of the normalised texts: it ignores case, spacing, punctuation and Unicode forms.

    Leaks are found by it. Among a million texts a collision has a probability below 1e-7.
    """
    return _hash(*map(normalise, texts))


def exact_fingerprint(*texts: str) -> int:
    """As ``fingerprint``, but punctuation counts: it may mark the words that a row is about."""
    return _hash(*map(folded, texts))


def _hash(*texts: str) -> int:
    return int.from_bytes(blake2b("\0".join(texts).encode(), digest_size=8).digest(), "big")


HEAD_BYTES = 512
"""How many bytes ``check_is_text`` needs: the signature of a tar archive is at 257."""


UNPACK: Final = "Unpack or export it first."

SIGNATURES: Final[tuple[tuple[re.Pattern[bytes], str, str], ...]] = (
    (
        re.compile(rb"PK\x03\x04.{26}(\[Content_Types\]\.xml|_rels/|docProps/|xl/)", re.DOTALL),
        "an office document, such as an Excel workbook (.xlsx)",
        "Save the sheet as 'CSV UTF-8' in Excel.",
    ),
    (
        re.compile(rb"PK(\x03\x04|\x05\x06|\x07\x08)"),
        "a zip archive (or an office document, which is one)",
        UNPACK,
    ),
    (re.compile(rb"\x1f\x8b"), "a gzip archive", UNPACK),
    (re.compile(rb"BZh[1-9]1AY&SY"), "a bzip2 archive", UNPACK),
    (re.compile(rb"\xfd7zXZ\x00"), "an xz archive", UNPACK),
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "a 7-Zip archive", UNPACK),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "a Zstandard archive", UNPACK),
    (re.compile(rb"Rar!\x1a\x07"), "a RAR archive", UNPACK),
    (re.compile(rb".{257}ustar", re.DOTALL), "a tar archive", UNPACK),
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "a PNG image", UNPACK),
    (re.compile(rb"\xff\xd8\xff"), "a JPEG image", UNPACK),
    (re.compile(rb"GIF8[79]a"), "a GIF image", UNPACK),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "a WebP image", UNPACK),
    (re.compile(rb"(II\*\x00|MM\x00\*)"), "a TIFF image", UNPACK),
    (re.compile(rb"%PDF-\d"), "a PDF document", UNPACK),
    (
        re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        "an old Microsoft Office document",
        "Save the sheet as 'CSV UTF-8' in Excel.",
    ),
    (re.compile(rb"SQLite format 3\x00"), "an SQLite database", UNPACK),
    (
        re.compile(rb"PAR1"),
        "a Parquet file",
        "Write JSON lines by to_json() of Hugging Face datasets, or of pandas with orient='records'.",
    ),
    (
        re.compile(rb"ARROW1\x00\x00|\xff\xff\xff\xff.{4}\x10\x00\x00\x00", re.DOTALL),
        "an Arrow file",
        "Load the folder with Hugging Face datasets (load_from_disk) and write JSON lines by to_json().",
    ),
    (
        re.compile(rb"x(\x01|\x9c|\xda(?![\x80-\xbf]))"),  # x and a Persian letter begin with x\xda, too
        "compressed data, such as a .spacy file",
        "In spaCy, write JSON lines of [text, annotations] from the documents of the DocBin.",
    ),
    (re.compile(rb"\x80[\x02-\x05]"), "a Python pickle, which is never loaded", "Write JSON lines."),
    (re.compile(rb"\x7fELF"), "a program", UNPACK),
)
"""How binary files begin, what they are, and what to do."""


WIDE_ENCODING_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def binary_kind(head: bytes) -> tuple[str, str] | None:
    """What a binary file with these first HEAD_BYTES is, and what to do to get text of it; None if it is no
    known one."""
    return next(((kind, advice) for pattern, kind, advice in SIGNATURES if pattern.match(head)), None)


def check_is_text(head: bytes, *, file: str) -> None:
    """Raise ``not_text`` or ``invalid_encoding`` if the first bytes are not those of a UTF-8 text."""
    if (known := binary_kind(head)) is not None:
        kind, advice = known
        raise file_error(ErrorCode.NOT_TEXT, f"this is {kind}, not text. {advice}", file=file, found=kind)
    for mark, encoding in WIDE_ENCODING_MARKS:
        if head.startswith(mark):
            raise file_error(
                ErrorCode.INVALID_ENCODING,
                f"this text is encoded in {encoding}. Save it as UTF-8, in Excel as 'CSV UTF-8'.",
                file=file,
                byte=0,
                found=encoding,
            )

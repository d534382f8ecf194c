"""Refusing files that are not text, by their first bytes."""

import re

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.failures import bad_file

HEAD_BYTES = 512
"""How much of a file ``refuse_binary`` looks at: up to the mark of a tar archive, and beyond."""


SIGNATURES: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"PK(\x03\x04|\x05\x06|\x07\x08)"), "a zip archive (or an office document, which is one)"),
    (re.compile(rb"\x1f\x8b"), "a gzip archive"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "a bzip2 archive"),
    (re.compile(rb"\xfd7zXZ\x00"), "an xz archive"),
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "a 7-Zip archive"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "a Zstandard archive"),
    (re.compile(rb"Rar!\x1a\x07"), "a RAR archive"),
    (re.compile(rb".{257}ustar", re.DOTALL), "a tar archive"),
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "a PNG image"),
    (re.compile(rb"\xff\xd8\xff"), "a JPEG image"),
    (re.compile(rb"GIF8[79]a"), "a GIF image"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "a WebP image"),
    (re.compile(rb"(II\*\x00|MM\x00\*)"), "a TIFF image"),
    (re.compile(rb"%PDF-\d"), "a PDF document"),
    (re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "an old Microsoft Office document"),
    (re.compile(rb"SQLite format 3\x00"), "an SQLite database"),
    (re.compile(rb"PAR1\x15"), "a Parquet file"),
    (re.compile(rb"\x7fELF"), "a program"),
)


WIDE_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def refuse_binary(head: bytes, *, file: str) -> None:
    """Raise ``not_text`` or ``invalid_encoding`` when the first bytes belong to no UTF-8 text."""
    for pattern, kind in SIGNATURES:
        if pattern.match(head):
            raise bad_file(
                ErrorCode.NOT_TEXT,
                f"this is {kind}, not text. Unpack or export it first.",
                file=file,
                found=kind,
            )
    for mark, encoding in WIDE_MARKS:
        if head.startswith(mark):
            raise bad_file(
                ErrorCode.INVALID_ENCODING,
                f"this text is encoded in {encoding}; save it as UTF-8.",
                file=file,
                byte=0,
                found=encoding,
            )

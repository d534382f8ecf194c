"""Lines of text files: what is taken, what is refused, and where the fault is said to be."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.lines import Source, read_lines
from tests.unit.tenants.files import refused, source


def lines_of(found: Source) -> list[str]:
    return [line.text for line in read_lines(found)]


def a_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("corpus.txt", "text")
    return buffer.getvalue()


def a_tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("corpus.txt"))
    return buffer.getvalue()


NOT_TEXT = {
    "zip": a_zip(),
    "tar": a_tar(),
    "gzip": gzip.compress(b"text"),
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "parquet": b"PAR1\x15\x04",
}


@pytest.mark.parametrize("kind", NOT_TEXT)
def test_what_is_no_text_is_refused_whatever_it_is_called(tmp_path: Path, kind: str) -> None:
    found = source(tmp_path, "corpus.txt", NOT_TEXT[kind])
    error = refused(ErrorCode.NOT_TEXT, lambda: lines_of(found))
    assert error.details is not None
    assert error.details["file"] == "corpus.txt"
    assert "not text" in error.message


def test_a_text_that_only_begins_like_an_archive_is_taken(tmp_path: Path) -> None:
    assert lines_of(source(tmp_path, "a.txt", "PKzip was a program\nBZh\nGIF8\nRIFF\n%PDF")) == [
        "PKzip was a program",
        "BZh",
        "GIF8",
        "RIFF",
        "%PDF",
    ]
    assert lines_of(source(tmp_path, "b.txt", "xډ")) == ["xډ"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_wide_encodings_are_named(tmp_path: Path, encoding: str) -> None:
    found = source(tmp_path, "a.txt", "hello".encode(encoding))
    assert encoding.upper() in refused(ErrorCode.INVALID_ENCODING, lambda: lines_of(found)).message


def test_invalid_utf8_is_located_by_line_and_byte(tmp_path: Path) -> None:
    found = source(tmp_path, "a.txt", "\ufeffgood\nnaïve ".encode() + b"\xe9t\xe9\n")
    error = refused(ErrorCode.INVALID_ENCODING, lambda: lines_of(found))
    assert error.details == {"file": "a.txt", "line": 2, "byte": 15}


def test_nul_is_located_by_line_and_byte(tmp_path: Path) -> None:
    found = source(tmp_path, "a.txt", b"good\nba\0d\n")
    error = refused(ErrorCode.NOT_TEXT, lambda: lines_of(found))
    assert error.details == {"file": "a.txt", "line": 2, "byte": 7}


def test_a_byte_order_mark_is_dropped_at_the_beginning_only(tmp_path: Path) -> None:
    assert lines_of(source(tmp_path, "a.txt", "\ufeffone\n\ufefftwo")) == ["one", "\ufefftwo"]


def test_every_line_end_is_known_and_other_separators_stay_inside(tmp_path: Path) -> None:
    assert lines_of(source(tmp_path, "a.txt", "a\r\nb\rc\nd\u2028e\x0bf")) == ["a", "b", "c", "d\u2028e\x0bf"]


def test_a_line_beyond_the_limit_is_refused_by_its_number(tmp_path: Path) -> None:
    found = source(tmp_path, "a.txt", "short\n" + "x" * 100)
    error = refused(ErrorCode.LINE_TOO_LONG, lambda: list(read_lines(found, max_bytes=50)))
    assert error.details == {"file": "a.txt", "line": 2, "limit": 50}


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"])), min_size=1))
def test_lines_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    lines = ["first", *lines, "last"]
    found = source(tmp_path_factory.mktemp("lines"), "a.txt", "\n".join(lines))
    assert lines_of(found) == lines

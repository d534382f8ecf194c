"""Folders and zip files as an import reads them: names and sizes first, then one file at a time, bounded.

Whatever is in them, only plain files with plain names come out.
"""

import io
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from django.http import StreamingHttpResponse

from tenants.base.errors import ErrorCode, HmiError
from versiontree.transfer.archive.layout import refused

MAX_FILES: Final = 4096


MAX_NAME_LENGTH: Final = 512


DEEPEST: Final = 16


DIRECTORY_BYTES: Final = 1024**2
"""What one read of the directory of a zip file may take: it stands in memory, some fifteen times as large."""


MAX_TIMES: Final = 100
"""How many times as large as it is a zip file may unpack to: zeros shrink to a thousandth, weights hardly,
and weights that were padded with zeros lie between."""


UNPACKED_ANYHOW: Final = 8 * 1024**2
"""Bytes that a small one may unpack to: JSON shrinks more than weights do."""


MAX_REASON_LENGTH: Final = 200
"""Readers of zip files quote what they stumbled over, however long."""


_PART: Final = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9_.+-]{1,200}\Z")


_READABLE: Final = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


_BROKEN: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError,
    IndexError, OverflowError, struct.error, OSError,
)  # fmt: skip


class Source(Protocol):
    """Plain files by name, with the size that they claim; `packed` is the size of the zip file itself, None
    for a folder."""

    sizes: Mapping[str, int]
    packed: int | None

    def open(self, name: str) -> IO[bytes]:
        """The bytes of one; reading may find that it is broken."""


@contextmanager
def source_open(archive: Path | IO[bytes]) -> Iterator[Source]:
    """A folder, a zip file by its path, or one that is open. Raises ``invalid_archive``."""
    if isinstance(archive, Path) and archive.is_dir() and not archive.is_symlink():
        with reading("The archive"):
            folder = _Folder(archive)
        yield folder
        return
    with reading("The archive"):
        stream = archive.open("rb") if isinstance(archive, Path) else archive
    try:
        with reading("The archive"):
            source = _Zip(stream)
        yield source
    finally:
        if isinstance(archive, Path):
            stream.close()


def sizes_check(source: Source, names: Iterable[str], *, most_bytes: int) -> int:
    """The bytes that the files of these names claim to have.

    Raises ``file_too_large`` for more than `most_bytes`, ``invalid_archive`` for many times more than the zip
    file has itself. What is unpacked is held to the claims.
    """
    claimed = sum(source.sizes[name] for name in names)
    if claimed > most_bytes:
        message = f"Unpacked, the archive has more than the {most_bytes:,} bytes that are taken here."
        raise HmiError(ErrorCode.FILE_TOO_LARGE, message, param="archive", details={"limit": most_bytes})
    if source.packed is not None and claimed > UNPACKED_ANYHOW + MAX_TIMES * source.packed:
        raise refused(
            f"The zip file has {source.packed:,} bytes and would unpack to {claimed:,}, more than "
            f"{MAX_TIMES} times as many: no weights shrink so far.",
            limit=MAX_TIMES,
        )
    return claimed


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Tell of bytes that make no sense as ``invalid_archive``."""
    try:
        yield
    except _BROKEN as error:
        reason = str(error)[:MAX_REASON_LENGTH] or type(error).__name__
        raise refused(f"{what} cannot be read: {reason}.") from error


class _Folder:
    packed: int | None = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.sizes: Mapping[str, int] = _named(self._walk(folder))

    def open(self, name: str) -> IO[bytes]:
        descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        return os.fdopen(descriptor, "rb")

    def _walk(self, folder: Path) -> Iterator[tuple[str, int]]:
        for path in sorted(folder.iterdir()):
            found = path.lstat()
            name = path.relative_to(self._folder).as_posix()
            if stat.S_ISDIR(found.st_mode) and name.count("/") < DEEPEST:
                yield from self._walk(path)
            elif stat.S_ISREG(found.st_mode):
                yield name, found.st_size
            else:
                raise refused(f"{name[:80]!r} is not a plain file.")


class _Zip:
    def __init__(self, stream: IO[bytes]) -> None:
        wary = _Wary(stream)
        self.packed: int | None = wary.size
        self._zip = zipfile.ZipFile(wary)  # all that it asks of a file
        self._about = {about.filename: about for about in self._zip.infolist()}
        self.sizes: Mapping[str, int] = _named(self._files())

    def open(self, name: str) -> IO[bytes]:
        return self._zip.open(self._about[name])

    def _files(self) -> Iterator[tuple[str, int]]:
        for about in self._zip.infolist():
            kind = stat.S_IFMT(about.external_attr >> 16)
            if about.filename.endswith("/") and not about.file_size:
                continue  # a folder, as tools add them
            if kind not in (0, stat.S_IFREG):
                raise refused(f"{about.filename[:80]!r} is not a plain file.")
            if about.flag_bits & 1 or about.compress_type not in _READABLE:
                raise refused(f"{about.filename[:80]!r} is encrypted, or compressed in an unusual way.")
            yield about.orig_filename, about.file_size


class _Wary:
    """A file of which nobody reads more at once than a directory of a sensible size has."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.size = stream.seek(0, io.SEEK_END)
        self.seek, self.tell, self.close = stream.seek, stream.tell, lambda: None
        self.name = None

    def seekable(self) -> bool:
        return True

    def read(self, count: int = -1) -> bytes:
        wanted = self.size - self._stream.tell() if count is None or count < 0 else count
        if min(wanted, self.size) > DIRECTORY_BYTES:
            raise refused("The directory of the zip file is too long.")
        return self._stream.read(wanted)


def _named(files: Iterable[tuple[str, int]]) -> dict[str, int]:
    """By name, once each name is plain and no two are the same, in whatever letters."""
    sizes: dict[str, int] = {}
    seen: set[str] = set()
    for name, size in files:
        parts = name.split("/")
        if len(name) > MAX_NAME_LENGTH or not all(_PART.match(part) for part in parts):
            raise refused(f"{name[:80]!r} is not a name that a file of an archive has.")
        if name.lower() in seen:
            raise refused(f"{name} is there twice.")
        seen.add(name.lower())
        sizes[name] = size
        if len(sizes) > MAX_FILES:
            raise refused(f"There are more than {MAX_FILES:,} files.")
    folders = {"/".join(name.split("/")[:depth]) for name in sizes for depth in range(1, name.count("/") + 1)}
    if both := sorted(folders & sizes.keys()):
        raise refused(f"{both[0]} is a file and a folder.")
    return sizes


@dataclass(frozen=True, slots=True)
class Download:
    """A zip file under way: what it should be called, and its bytes."""

    name: str
    chunks: Iterator[bytes]


def zip_response(download: Download) -> StreamingHttpResponse:
    """The answer that a browser saves as a file."""
    answer = StreamingHttpResponse(download.chunks, content_type="application/zip")
    answer["Content-Disposition"] = f'attachment; filename="{download.name}"'
    answer["X-Accel-Buffering"] = "no"
    return answer

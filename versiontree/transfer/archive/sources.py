"""Read untrusted folders and zip files: only plain files with plain names, of limited number and size."""

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
from versiontree.transfer.archive.layout import invalid_archive

ZIP_TYPE: Final = "application/zip"
MAX_FILES: Final = 4096
MAX_NAME_LENGTH: Final = 512
MAX_DEPTH: Final = 16
DIRECTORY_BYTES: Final = 1024**2
"""The largest directory of a zip file. In memory it takes about fifteen times as much."""
MAX_COMPRESSION_RATIO: Final = 100
"""Zeros compress to a thousandth, weights hardly, weights padded with zeros in between."""
MIN_UNPACKED_BYTES: Final = 8 * 1024**2
"""Small zip files may unpack to this much at any ratio: JSON compresses well."""
MAX_REASON_LENGTH: Final = 200
"""Errors of zip libraries quote their input, which may be long."""
_PART: Final = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9_.+-]{1,200}\Z")
_READABLE: Final = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_BROKEN: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError,
    IndexError, OverflowError, struct.error, OSError,
)  # fmt: skip


class Source(Protocol):
    """Plain files by name, with the sizes that they claim. `packed` is the size of the zip file, None for a
    folder."""

    sizes: Mapping[str, int]
    packed: int | None

    def open(self, name: str) -> IO[bytes]:
        """Open a file. Reading it may raise errors of a broken zip file."""


@contextmanager
def source_open(archive: Path | IO[bytes]) -> Iterator[Source]:
    """Open a folder, a zip file, or an open zip file. Raises ``invalid_archive``."""
    if isinstance(archive, Path) and archive.is_dir() and not archive.is_symlink():
        with read_errors("The archive"):
            folder = _Folder(archive)
        yield folder
        return
    with read_errors("The archive"):
        stream = archive.open("rb") if isinstance(archive, Path) else archive
    try:
        with read_errors("The archive"):
            source = _Zip(stream)
        yield source
    finally:
        if isinstance(archive, Path):
            stream.close()


def sizes_check(source: Source, names: Iterable[str], *, max_bytes: int) -> int:
    """The total size that these files claim.

    Raises ``file_too_large`` for more than `max_bytes`, ``invalid_archive`` for too high a compression ratio.
    """
    claimed = sum(source.sizes[name] for name in names)
    if claimed > max_bytes:
        message = f"The unpacked archive is larger than the limit of {max_bytes:,} bytes."
        raise HmiError(ErrorCode.FILE_TOO_LARGE, message, param="archive", details={"limit": max_bytes})
    if source.packed is not None and claimed > MIN_UNPACKED_BYTES + MAX_COMPRESSION_RATIO * source.packed:
        raise invalid_archive(
            f"The zip file has {source.packed:,} bytes and would unpack to {claimed:,}. The limit of "
            f"the compression ratio is {MAX_COMPRESSION_RATIO}.",
            limit=MAX_COMPRESSION_RATIO,
        )
    return claimed


@contextmanager
def read_errors(what: str) -> Iterator[None]:
    """Convert errors of reading ``what`` to ``invalid_archive``."""
    try:
        yield
    except _BROKEN as error:
        reason = str(error)[:MAX_REASON_LENGTH] or type(error).__name__
        raise invalid_archive(f"{what} cannot be read: {reason}.") from error


class _Folder:
    packed: int | None = None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.sizes: Mapping[str, int] = _by_name(self._walk(folder))

    def open(self, name: str) -> IO[bytes]:
        descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        return os.fdopen(descriptor, "rb")

    def _walk(self, folder: Path) -> Iterator[tuple[str, int]]:
        for path in sorted(folder.iterdir()):
            found = path.lstat()
            name = path.relative_to(self._folder).as_posix()
            if stat.S_ISDIR(found.st_mode) and name.count("/") < MAX_DEPTH:
                yield from self._walk(path)
            elif stat.S_ISREG(found.st_mode):
                yield name, found.st_size
            else:
                raise invalid_archive(f"{name[:80]!r} is not a plain file.")


class _Zip:
    def __init__(self, stream: IO[bytes]) -> None:
        bounded = _BoundedReader(stream)
        self.packed: int | None = bounded.size
        self._zip = zipfile.ZipFile(bounded)
        self._about = {about.filename: about for about in self._zip.infolist()}
        self.sizes: Mapping[str, int] = _by_name(self._files())

    def open(self, name: str) -> IO[bytes]:
        return self._zip.open(self._about[name])

    def _files(self) -> Iterator[tuple[str, int]]:
        for about in self._zip.infolist():
            kind = stat.S_IFMT(about.external_attr >> 16)
            if about.filename.endswith("/") and not about.file_size:
                continue  # a folder, as tools add them
            if kind not in (0, stat.S_IFREG):
                raise invalid_archive(f"{about.filename[:80]!r} is not a plain file.")
            if about.flag_bits & 1 or about.compress_type not in _READABLE:
                raise invalid_archive(
                    f"{about.filename[:80]!r} is encrypted, or uses an unsupported compression."
                )
            yield about.orig_filename, about.file_size


class _BoundedReader:
    """A file that refuses to read more than ``DIRECTORY_BYTES`` at once, for ZipFile."""

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
            raise invalid_archive("The directory of the zip file is too long.")
        return self._stream.read(wanted)


def _by_name(files: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The sizes by name. Raises ``invalid_archive`` unless names are plain and unique, ignoring case."""
    sizes: dict[str, int] = {}
    seen: set[str] = set()
    for name, size in files:
        parts = name.split("/")
        if len(name) > MAX_NAME_LENGTH or not all(_PART.match(part) for part in parts):
            raise invalid_archive(f"{name[:80]!r} is not a valid file name in an archive.")
        if name.lower() in seen:
            raise invalid_archive(f"{name} occurs twice.")
        seen.add(name.lower())
        sizes[name] = size
        if len(sizes) > MAX_FILES:
            raise invalid_archive(f"There are more than {MAX_FILES:,} files.")
    folders = {"/".join(name.split("/")[:depth]) for name in sizes for depth in range(1, name.count("/") + 1)}
    if both := sorted(folders & sizes.keys()):
        raise invalid_archive(f"{both[0]} is a file and a folder.")
    return sizes


@dataclass(frozen=True, slots=True)
class Download:
    """The file name and the chunks of a zip file to download."""

    name: str
    chunks: Iterator[bytes]


def zip_response(download: Download, content_type: str = ZIP_TYPE) -> StreamingHttpResponse:
    """A streaming response that downloads the zip file."""
    answer = StreamingHttpResponse(download.chunks, content_type=content_type)
    answer["Content-Disposition"] = f'attachment; filename="{download.name}"'
    answer["X-Accel-Buffering"] = "no"
    return answer

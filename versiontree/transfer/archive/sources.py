"""Read untrusted folders and zip files: plain files, of limited number and size.

Tools add files of their own, such as ``__MACOSX/._config.json``, ``.DS_Store`` and ``Thumbs.db``, and put all
in a folder. Files that are not asked for are never opened, so they may have any name and any kind.
"""

import io
import os
import stat
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple

from django.http import StreamingHttpResponse

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.lines import HEAD_BYTES, binary_kind
from versiontree.transfer.archive.layout import invalid_archive

CHUNK: Final = 1024**2
ZIP_TYPE: Final = "application/zip"
MAX_FILES: Final = 4096
MAX_NAME_LENGTH: Final = 1024
"""Files with longer names, folders included, are ignored."""
MAX_DEPTH: Final = 16
DIRECTORY_BYTES: Final = 1024**2
"""The largest directory of a zip file. In memory it takes about fifteen times as much."""
MAX_COMPRESSION_RATIO: Final = 100
"""Zeros compress to a thousandth, weights hardly, weights padded with zeros in between."""
MIN_UNPACKED_BYTES: Final = 8 * 1024**2
"""Small zip files may unpack to this much at any ratio: JSON compresses well."""
MAX_REASON_LENGTH: Final = 200
"""Errors of zip libraries quote their input, which may be long."""
NOT_PLAIN: Final = "is not a plain file"
ZIP_BEGINS: Final = b"PK"
_READABLE: Final = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_BROKEN: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError,
    IndexError, OverflowError, struct.error, OSError,
)  # fmt: skip


class Member(NamedTuple):
    """An entry of a folder or zip file. `fault`: why it cannot be read, empty if it can."""

    name: str
    size: int
    fault: str = ""


class Source(ABC):
    """The files of an archive by name, with the sizes that they claim.

    `packed` is the size of the zip file, None for a folder. Names have slashes between their parts, and
    neither empty parts nor dots.
    """

    packed: int | None = None
    sizes: Mapping[str, int]

    def __init__(self, members: Iterable[Member]) -> None:
        self._members = _by_name(members)
        self._enter("")

    def enter_folder_of(self, name: str) -> None:
        """Go to the folder with the file `name`: from then on names are relative to it, and others are gone.

        If there are several, it is the one that contains the others. Raises ``invalid_archive``.
        """
        folders = [found.removesuffix(name) for found in self._members if f"/{found}".endswith(f"/{name}")]
        if not folders:
            raise invalid_archive(f"{name} is missing.")
        top = min(folders, key=len)
        if not all(folder.startswith(top) for folder in folders):
            raise invalid_archive(f"There must be exactly one {name}; {len(folders)} folders have one.")
        self._enter(top)

    def _enter(self, folder: str) -> None:
        self._folder = folder
        below = (name for name in self._members if name.startswith(folder))
        self.sizes = {name.removeprefix(folder): self._members[name].size for name in below}

    def check(self, name: str) -> None:
        """Raise ``invalid_archive`` if this file cannot be read."""
        if fault := self._members[self._folder + name].fault:
            raise invalid_archive(f"{name[:80]!r} {fault}.")

    def open(self, name: str) -> IO[bytes]:
        """Open a file. Opening and reading may raise errors of a broken zip file, see `read_errors`."""
        self.check(name)
        return self._open(self._folder + name)

    @abstractmethod
    def _open(self, name: str) -> IO[bytes]:
        """Open a file that can be read, by its whole name."""


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


def files_check(source: Source, names: Iterable[str], *, max_bytes: int) -> int:
    """The total size that these files claim.

    Raises ``file_too_large`` for more than `max_bytes`, ``invalid_archive`` for a file that cannot be read,
    and for too high a compression ratio.
    """
    wanted = sorted(set(names))
    for name in wanted:
        source.check(name)
    claimed = sum(source.sizes[name] for name in wanted)
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


def member_copy(source: Source, name: str, target: Path) -> None:
    """Append a file to ``target``. Raises ``invalid_archive`` if it is larger than its declared size."""
    size, max_bytes = 0, source.sizes[name]
    with read_errors(name):
        stream = source.open(name)
    with stream, target.open("ab") as out:
        while True:
            with read_errors(name):
                chunk = stream.read(CHUNK)
            if not chunk:
                return
            size += len(chunk)
            if size > max_bytes:
                raise invalid_archive(f"{name[:80]} is larger than its declared size.")
            out.write(chunk)


class _Folder(Source):
    def __init__(self, folder: Path) -> None:
        self._path = folder
        super().__init__(self._walk(folder))

    def _open(self, name: str) -> IO[bytes]:
        descriptor = os.open(self._path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        return os.fdopen(descriptor, "rb")

    def _walk(self, folder: Path) -> Iterator[Member]:
        for path in sorted(folder.iterdir()):
            found = path.lstat()
            name = path.relative_to(self._path).as_posix()
            if not stat.S_ISDIR(found.st_mode):
                yield Member(name, found.st_size, "" if stat.S_ISREG(found.st_mode) else NOT_PLAIN)
            elif name.count("/") < MAX_DEPTH:
                yield from self._walk(path)


class _Zip(Source):
    def __init__(self, stream: IO[bytes]) -> None:
        bounded = _BoundedReader(stream)
        self.packed = bounded.size
        try:
            self._zip = zipfile.ZipFile(bounded)
        except zipfile.BadZipFile:
            _check_format(stream)
            raise
        # Without those of folders. Some tools for Windows write backslashes.
        files = [entry for entry in self._zip.infolist() if not entry.orig_filename.endswith(("/", "\\"))]
        self._entries = {_plain_name(entry.orig_filename): entry for entry in files}
        super().__init__(map(_member, files))

    def _open(self, name: str) -> IO[bytes]:
        return self._zip.open(self._entries[name])


def _member(entry: zipfile.ZipInfo) -> Member:
    fault = ""
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
        fault = NOT_PLAIN
    elif entry.flag_bits & 1:
        fault = "is encrypted"
    elif entry.compress_type not in _READABLE:
        fault = "uses an unsupported compression. Make the zip file with Deflate"
    return Member(_plain_name(entry.orig_filename), entry.file_size, fault)


def _plain_name(name: str) -> str:
    """The name with slashes between its parts, without empty parts and dots."""
    return "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))


def _check_format(stream: IO[bytes]) -> None:
    """Raise ``invalid_archive`` that says what the file is, if it is known and no broken zip file."""
    stream.seek(0)
    head = stream.read(HEAD_BYTES)
    known = binary_kind(head)
    if known is not None and not head.startswith(ZIP_BEGINS):
        raise invalid_archive(
            f"This is {known[0]}, not a zip file. Unpack it, and send the folder as a zip file."
        )


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


def _by_name(members: Iterable[Member]) -> dict[str, Member]:
    """The members by name. Those whose name is not unique, ignoring case, cannot be read."""
    found: dict[str, Member] = {}
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for count, member in enumerate(members, start=1):
        if count > MAX_FILES:
            raise invalid_archive(f"There are more than {MAX_FILES:,} files.")
        if len(member.name) <= MAX_NAME_LENGTH:
            found[member.name] = member
            spellings[member.name.lower()].append(member.name)
    folders = {folder for name in found for folder in _folders(name) if folder in found}
    twice = {name for names in spellings.values() if len(names) > 1 for name in names}
    faults = dict.fromkeys(twice, "occurs twice") | dict.fromkeys(folders, "is a file and a folder")
    return found | {name: found[name]._replace(fault=fault) for name, fault in faults.items()}


def _folders(name: str) -> Iterator[str]:
    """The folders that a file is in."""
    return (name[:place] for place, character in enumerate(name) if character == "/")


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

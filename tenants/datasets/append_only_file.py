"""Appending bytes at an offset to a file: the one place where bytes of clients are bounded and written.

Pieces by the tus protocol, files of forms and of `/v1/files` all come here. The length of the file of an
upload is its offset.

Two requests may write to one file: the thread of a broken connection may still wait while its client has
already reconnected. So a chunk is written only if the file ends at the expected offset, and under a lock. A
writer also stops if another file is at the path, or if the file is complete (``make_read_only``).
"""

import fcntl
import hashlib
import os
import stat
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from tenants.base.disk import READ_ONLY, disk_full_errors, free_space_check
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.errors import file_error
from tenants.datasets.storage import CHUNK_BYTES, FileDigest, Readable, digest_file

ALGORITHMS = ("sha256", "sha1")
TAIL_BYTES = 1 << 20


def received_bytes(path: Path) -> int:
    """The length of the file, which is the upload's offset. ``not_found`` if the file is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError as error:
        raise _not_found() from error


def tail_sha256(path: Path) -> str:
    """The sha256 of the last ``TAIL_BYTES`` that arrived, or of all if they are fewer. ``not_found``.

    A client that resumes an upload compares it with its file, which may have changed.
    """
    with _open(path) as file:
        file.seek(max(0, _length(file) - TAIL_BYTES))
        return hashlib.sha256(file.read(TAIL_BYTES)).hexdigest()


def append_chunks(
    path: Path, chunks: Iterable[bytes], *, offset: int, max_size: int, too_large: HmiError | None = None
) -> int:
    """Append chunks at ``offset`` and return the new length. Each is on disk before the next is read.

    Raises ``conflict`` if the file does not end at ``offset`` (at first or later) or is complete,
    ``not_found`` if it is gone, ``out_of_disk``, and ``body_too_large`` (or the error ``too_large``) beyond
    ``max_size``: then everything that this call wrote is removed.
    """
    start = offset
    with _open(path) as file, disk_full_errors():
        _check_offset(_length(file), offset)
        for chunk in chunks:
            with _locked(file):
                _check_is_writable(file, path)
                _check_offset(_length(file), offset)
                if offset + len(chunk) > max_size:
                    file.truncate(start)
                    raise too_large or _too_large()
                free_space_check(path.parent, len(chunk))
                offset = _write(file, chunk, offset)
    return offset


def append_verified_chunks(
    path: Path, chunks: Iterable[bytes], *, offset: int, max_size: int, algorithm: str, digest: bytes
) -> int:
    """As ``append_chunks``, but nothing is appended unless all chunks together have this digest.

    Raises ``checksum_mismatch``, and ``invalid_field`` for an unknown algorithm.
    """
    _check_offset(received_bytes(path), offset)
    if algorithm not in ALGORITHMS:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"Checksums are {' or '.join(ALGORITHMS)}, not {algorithm}.",
            param="Upload-Checksum",
        )
    with disk_full_errors(), tempfile.NamedTemporaryFile(dir=path.parent, buffering=0) as buffer:
        append_chunks(Path(buffer.name), chunks, offset=0, max_size=max_size - offset)
        found = hashlib.file_digest(buffer, partial(hashlib.new, algorithm, usedforsecurity=False))
        if found.digest() != digest:
            raise HmiError(
                ErrorCode.CHECKSUM_MISMATCH,
                "The bytes that arrived do not have the checksum that was sent. None were stored; send them"
                " again.",
                param="Upload-Checksum",
                details={"found": f"{algorithm} {b64encode(found.digest()).decode()}"},
            )
        buffer.seek(0)
        return append_chunks(path, read_chunks(buffer), offset=offset, max_size=max_size)


def write_stream(stream: Readable, target: Path, *, name: str, limit: int) -> FileDigest:
    """Write the stream to a new file. ``file_too_large`` beyond ``limit`` bytes, ``out_of_disk``."""
    too_large = file_error(
        ErrorCode.FILE_TOO_LARGE, f"the file is larger than {limit:,} bytes.", file=name, limit=limit
    )
    target.touch(exist_ok=False)
    chunks = iter(partial(stream.read, CHUNK_BYTES), b"")
    append_chunks(target, chunks, offset=0, max_size=limit, too_large=too_large)
    return digest_file(target)


def make_read_only(path: Path, size: int) -> None:
    """Stop all further writes to the file, also by those who have it open. May be repeated.

    Raises ``conflict`` unless it has this size, ``not_found`` if it is gone.
    """
    with _open(path) as file, _locked(file):
        _check_is_at(file, path)
        _check_offset(_length(file), size)
        os.fchmod(file.fileno(), READ_ONLY)


def read_chunks(stream: Readable) -> Iterator[bytes]:
    """The chunks of a stream until it ends, breaks or times out."""
    while True:
        try:
            chunk = stream.read(CHUNK_BYTES)
        except (OSError, HmiError):
            return  # what arrived before is stored, and the client resumes from there
        if not chunk:
            return
        yield chunk


def _open(path: Path) -> IO[bytes]:
    """Unbuffered: closing the file must not retry a failed write."""
    try:
        try:
            return path.open("r+b", buffering=0)
        except PermissionError:  # complete: refused before anything is written, as for root
            return path.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise _not_found() from error


def _write(file: IO[bytes], chunk: bytes, offset: int) -> int:
    """Write the whole chunk and return the offset of the next one."""
    file.seek(offset)
    left = memoryview(chunk)
    while left:  # on a disk that is almost full a write is short before it fails
        left = left[file.write(left) :]
    return offset + len(chunk)


def _check_is_at(file: IO[bytes], path: Path) -> None:
    """``not_found`` unless the path still leads to this file."""
    try:
        current = path.stat()
    except FileNotFoundError as error:
        raise _not_found() from error
    if not os.path.samestat(os.fstat(file.fileno()), current):
        raise _not_found()


def _check_is_writable(file: IO[bytes], path: Path) -> None:
    """``conflict`` if the file is complete, ``not_found`` if the path leads elsewhere."""
    _check_is_at(file, path)
    if not os.fstat(file.fileno()).st_mode & stat.S_IWUSR:
        raise HmiError(
            ErrorCode.CONFLICT,
            "This upload is complete and cannot be changed.",
            param="Upload-Offset",
            details={"offset": _length(file)},
        )


@contextmanager
def _locked(file: IO[bytes]) -> Iterator[None]:
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _length(file: IO[bytes]) -> int:
    return file.seek(0, os.SEEK_END)


def _check_offset(length: int, offset: int) -> None:
    if length != offset:
        raise HmiError(
            ErrorCode.CONFLICT,
            f"{length:,} bytes of this upload have arrived. The next bytes start at {length:,}, not at"
            f" {offset:,}.",
            param="Upload-Offset",
            details={"offset": length},
        )


def _too_large() -> HmiError:
    return HmiError(ErrorCode.BODY_TOO_LARGE, "The body exceeds the size that was announced for the upload.")


def _not_found() -> HmiError:
    return HmiError(ErrorCode.NOT_FOUND, "The upload does not exist or has expired. Start a new upload.")

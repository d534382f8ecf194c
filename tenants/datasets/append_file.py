"""Files that grow piece by piece. A file's length is how much of it has arrived; no Django in here.

Several writers may be at one file: a connection that broke without a word still has a thread that waits for
it, while its client is back already. So every piece goes to the place it belongs to, or nowhere: whoever
finds the file at another length than expected has been overtaken, and stops. So does whoever finds another
file at the path, or one that is complete (``seal``): it may be read, or be on its way into the store.
"""

import fcntl
import hashlib
import os
import stat
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tenants.base.disk import READ_ONLY, disk_full_errors
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.storage import CHUNK_BYTES, Readable

ALGORITHMS = ("sha256", "sha1")


def arrived(path: Path) -> int:
    """How many bytes are here; ``not_found`` when the file is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError as error:
        raise _gone() from error


def expect(path: Path, at: int) -> None:
    """``conflict`` unless the next piece begins at ``at``."""
    _expect(arrived(path), at)


def append(path: Path, pieces: Iterable[bytes], *, at: int, most: int) -> int:
    """Write pieces from ``at`` on, each on disk before the next is asked for; returns the file's new length.

    Raises ``conflict`` where the file does not end at ``at``, then or later, or is complete; ``not_found``
    where it is gone; ``out_of_disk``; and ``body_too_large`` beyond ``most``: then nothing that was written
    stays.
    """
    begin = at
    with _opened(path) as file, disk_full_errors():
        _expect(_length(file), at)
        for piece in pieces:
            with _locked(file):
                _check_is_growing(file, path)
                _expect(_length(file), at)
                if at + len(piece) > most:
                    file.truncate(begin)
                    raise _too_large()
                at = _write(file, piece, at)
    return at


def seal(path: Path, size: int) -> None:
    """Have nobody write to the file any more, whoever has it open; more than once does no harm.

    Raises ``conflict`` unless it has this size, ``not_found`` when it is gone.
    """
    with _opened(path) as file, _locked(file):
        _check_is_at(file, path)
        _expect(_length(file), size)
        os.fchmod(file.fileno(), READ_ONLY)


def pieces_of(stream: Readable) -> Iterator[bytes]:
    """What the stream brings, until it ends, breaks off, or is waited for in vain."""
    while True:
        try:
            piece = stream.read(CHUNK_BYTES)
        except (OSError, HmiError):
            return  # what came before is kept, and the sender goes on from there
        if not piece:
            return
        yield piece


@contextmanager
def verified(
    pieces: Iterable[bytes], folder: Path, algorithm: str, digest: bytes, *, most: int
) -> Iterator[Iterator[bytes]]:
    """The same pieces, once they all have come and have this digest; else ``checksum_mismatch``, or
    ``body_too_large`` as soon as they are more than ``most`` bytes.
    """
    if algorithm not in ALGORITHMS:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"Checksums are {' or '.join(ALGORITHMS)}, not {algorithm}.",
            param="Upload-Checksum",
        )
    found = hashlib.new(algorithm, usedforsecurity=False)
    with disk_full_errors(), tempfile.TemporaryFile(dir=folder, buffering=0) as aside:
        written = 0
        for piece in pieces:
            if written + len(piece) > most:
                raise _too_large()
            found.update(piece)
            written = _write(aside, piece, written)
        if found.digest() != digest:
            raise HmiError(
                ErrorCode.CHECKSUM_MISMATCH,
                "What arrived has another checksum than was sent along. None of it was kept; send it again.",
                param="Upload-Checksum",
                details={"found": f"{algorithm} {b64encode(found.digest()).decode()}"},
            )
        aside.seek(0)
        yield pieces_of(aside)


def _opened(path: Path) -> IO[bytes]:
    """Without a buffer: what could not be written is not tried again when the file is closed."""
    try:
        try:
            return path.open("r+b", buffering=0)
        except PermissionError:  # it is complete: found out, as by root, before anything is written
            return path.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise _gone() from error


def _write(file: IO[bytes], piece: bytes, at: int) -> int:
    """Write the whole piece; returns where the next one begins."""
    file.seek(at)
    left = memoryview(piece)
    while left:  # on a disk that is almost full a write is short before it fails
        left = left[file.write(left) :]
    return at + len(piece)


def _check_is_at(file: IO[bytes], path: Path) -> None:
    """``not_found`` unless the path still leads to this file."""
    try:
        there = path.stat()
    except FileNotFoundError as error:
        raise _gone() from error
    if not os.path.samestat(os.fstat(file.fileno()), there):
        raise _gone()


def _check_is_growing(file: IO[bytes], path: Path) -> None:
    """``conflict`` where the file is complete, ``not_found`` where the path leads elsewhere."""
    _check_is_at(file, path)
    if stat.S_IMODE(os.fstat(file.fileno()).st_mode) == READ_ONLY:
        raise HmiError(
            ErrorCode.CONFLICT,
            "This upload is complete; its bytes do not change any more.",
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


def _expect(length: int, at: int) -> None:
    if length != at:
        raise HmiError(
            ErrorCode.CONFLICT,
            f"{length:,} bytes of this upload are here; the next piece begins there, not at {at:,}.",
            param="Upload-Offset",
            details={"offset": length},
        )


def _too_large() -> HmiError:
    return HmiError(ErrorCode.BODY_TOO_LARGE, "This goes beyond the bytes that the upload was to have.")


def _gone() -> HmiError:
    return HmiError(ErrorCode.NOT_FOUND, "There is no such upload; it may have expired. Begin anew.")

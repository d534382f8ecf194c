"""Files that grow piece by piece. A file's length is how much of it has arrived; no Django in here.

Several writers may be at one file: a connection that broke without a word still has a thread that waits for
it, while its client is back already. So every piece goes to the place it belongs to, or nowhere: whoever
finds the file at another length than expected has been overtaken, and stops.
"""

import fcntl
import hashlib
import os
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tenants.errors import ErrorCode, HmiError
from tenants.storage import CHUNK_BYTES, Readable

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

    Raises ``conflict`` where the file does not end at ``at``, then or later, and ``body_too_large`` beyond
    ``most``: then nothing that was written stays.
    """
    begin = at
    try:
        file = path.open("r+b")
    except FileNotFoundError as error:
        raise _gone() from error
    with file:
        _expect(_length(file), at)
        for piece in pieces:
            with _locked(file):
                _expect(_length(file), at)
                if at + len(piece) > most:
                    file.truncate(begin)
                    raise _too_large()
                file.write(piece)
                file.flush()
            at += len(piece)
    return at


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
    with tempfile.TemporaryFile(dir=folder) as aside:
        for piece in pieces:
            if aside.tell() + len(piece) > most:
                raise _too_large()
            found.update(piece)
            aside.write(piece)
        if found.digest() != digest:
            raise HmiError(
                ErrorCode.CHECKSUM_MISMATCH,
                "What arrived has another checksum than was sent along. None of it was kept; send it again.",
                param="Upload-Checksum",
                details={"found": f"{algorithm} {b64encode(found.digest()).decode()}"},
            )
        aside.seek(0)
        yield pieces_of(aside)


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

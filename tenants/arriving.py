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


def append(path: Path, pieces: Iterable[bytes], *, at: int, most: int) -> int:
    """Write pieces from ``at`` on, each on disk before the next is asked for; returns the file's new length.

    Raises ``conflict`` where the file does not end at ``at``, then or later, and ``body_too_large`` beyond
    ``most``.
    """
    try:
        file = path.open("r+b")
    except FileNotFoundError as error:
        raise _gone() from error
    with file:
        _expect(file, at)
        for piece in pieces:
            if at + len(piece) > most:
                raise HmiError(
                    ErrorCode.BODY_TOO_LARGE, f"The upload was to have {most:,} bytes; this goes beyond."
                )
            with _locked(file):
                _expect(file, at)
                file.write(piece)
                file.flush()
            at += len(piece)
    return at


def pieces_of(stream: Readable) -> Iterator[bytes]:
    """What the stream brings, until it ends or breaks off."""
    while True:
        try:
            piece = stream.read(CHUNK_BYTES)
        except OSError:
            return  # the connection broke: what came before is kept
        if not piece:
            return
        yield piece


@contextmanager
def verified(
    pieces: Iterable[bytes], folder: Path, algorithm: str, digest: bytes
) -> Iterator[Iterator[bytes]]:
    """The same pieces, once they all have come and have this digest; else ``checksum_mismatch``."""
    if algorithm not in ALGORITHMS:
        raise HmiError(
            ErrorCode.INVALID_FIELD,
            f"Checksums are {' or '.join(ALGORITHMS)}, not {algorithm}.",
            param="Upload-Checksum",
        )
    found = hashlib.new(algorithm, usedforsecurity=False)
    with tempfile.TemporaryFile(dir=folder) as aside:
        for piece in pieces:
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


def _expect(file: IO[bytes], at: int) -> None:
    length = file.seek(0, os.SEEK_END)
    if length != at:
        raise HmiError(
            ErrorCode.CONFLICT,
            f"{length:,} bytes of this upload are here; the next piece begins there, not at {at:,}.",
            param="Upload-Offset",
            details={"offset": length},
        )


def _gone() -> HmiError:
    return HmiError(ErrorCode.NOT_FOUND, "There is no such upload; it may have expired. Begin anew.")

"""Uploaded files on disk, addressed by content: ``<root>/ab/<sha256>``, written once, never changed.

What a client may still write to is never moved there: it is copied, and the checksum is that of the copy.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from django.conf import settings

from tenants.base.disk import READ_ONLY, copy, disk_full_errors, sweep, sync, workspace
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.failures import bad_file

CHUNK_BYTES = 1 << 20
ARRIVING = ".arriving"
CHECKED = ".checked"
ABANDONED_AFTER_S = 24 * 3600.0


class Readable(Protocol):
    """What an upload is read from: an open file, or Django's uploaded file."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes; nothing at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """Checksum and size of a file."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A whole file that is on disk already, and may be read as often as one likes."""

    path: Path
    measured: Measured


class UploadStore:
    """The folder of uploads. Files come in under a workspace and are renamed into their place."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str) -> Path:
        """Where the file with this checksum lies, or would."""
        return self.root / sha256[:2] / sha256

    def incoming_path(self, key: object) -> Path:
        """Where a file lies while it comes in piece by piece, and until something is made of it."""
        return self.root / ARRIVING / str(key)

    def checked(self, key: object) -> Path:
        """The folder of what a check made of files, until it is stored."""
        return self.root / CHECKED / str(key)

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A folder of its own for one upload; those that killed processes left behind go first. A disk that
        is full meanwhile is told as ``out_of_disk``."""
        with disk_full_errors():
            sweep(self.root, older_than_s=ABANDONED_AFTER_S)
            with workspace(self.root) as folder:
                yield folder

    def place(self, source: Path, measured: Measured) -> Path:
        """Move a finished file, of which the caller alone knows, to its place. Survives power loss.

        It takes the place of one that is there already: that one may have been damaged since.
        """
        target = self.path(measured.sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.chmod(READ_ONLY)
        sync(source)
        source.replace(target)
        sync(target.parent)
        return target

    def discard(self, sha256: str) -> None:
        """Remove the file, if it is there. The caller knows that nothing refers to it."""
        self.path(sha256).unlink(missing_ok=True)


def upload_store() -> UploadStore:
    """The store that this installation is set to."""
    return UploadStore(Path(settings.HMI_UPLOAD_ROOT))


def stored_path(sha256: str) -> Path:
    """Where the uploaded file with this checksum lies."""
    return upload_store().path(sha256)


def receive(stream: Readable, target: Path, *, name: str, limit: int) -> Measured:
    """Write the stream to a new file in pieces; ``file_too_large`` beyond ``limit`` bytes."""
    digest = hashlib.sha256()
    size = 0
    with target.open("xb") as out:
        while chunk := stream.read(CHUNK_BYTES):
            size += len(chunk)
            if size > limit:
                raise bad_file(
                    ErrorCode.FILE_TOO_LARGE,
                    f"the file is larger than {limit:,} bytes.",
                    file=name,
                    limit=limit,
                )
            digest.update(chunk)
            out.write(chunk)
    return Measured(digest.hexdigest(), size)


def measure(path: Path) -> Measured:
    """Checksum and size of a file on disk."""
    with path.open("rb") as stream:
        return Measured(hashlib.file_digest(stream, "sha256").hexdigest(), path.stat().st_size)


def copied(kept: Kept, target: Path, *, name: str) -> None:
    """Make a new file of one that others may have open, or that lies in the store.

    Raises ``corrupt_artifact`` where it is not what was measured.
    """
    copy(kept.path, target)
    verify(Kept(target, kept.measured), name=name)


def verify(kept: Kept, *, name: str) -> None:
    """Raises ``corrupt_artifact`` unless the file is what was measured once. Reads all of it."""
    if not kept.path.is_file() or measure(kept.path) != kept.measured:
        raise damaged(name)


def damaged(name: str) -> HmiError:
    """A file on this server is not what was sent. ``name`` is what its owner calls it."""
    message = f"{name} is damaged on this server. Send it again, or ask an administrator to restore it."
    return HmiError(ErrorCode.CORRUPT_ARTIFACT, message)

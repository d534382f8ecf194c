"""Uploaded files on disk, addressed by content: ``<root>/ab/<sha256>``, written once, never changed."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from django.conf import settings

from tenants.errors import ErrorCode
from tenants.formats.failures import bad_file
from tenants.workspaces import sweep, sync, workspace

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

    def arriving(self, key: object) -> Path:
        """Where a file lies while it comes in piece by piece, and until something is made of it."""
        return self.root / ARRIVING / str(key)

    def checked(self, key: object) -> Path:
        """The folder of what a check made of files, until it is stored."""
        return self.root / CHECKED / str(key)

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A folder of its own for one upload; those that killed processes left behind go first."""
        sweep(self.root, older_than_s=ABANDONED_AFTER_S)
        with workspace(self.root) as folder:
            yield folder

    def place(self, source: Path, measured: Measured) -> Path:
        """Move a finished file to its place; one that is there already stays. Survives power loss."""
        target = self.path(measured.sha256)
        if target.is_file() and target.stat().st_size == measured.size:
            source.unlink()
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
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

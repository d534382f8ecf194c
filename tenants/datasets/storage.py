"""The content-addressed store of uploaded files: ``<root>/ab/<sha256>``, written once, never changed.

A file that a client may still write to is copied into the store, never moved. Its checksum is the copy's.
"""

import hashlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from django.conf import settings

from tenants.base.disk import (
    READ_ONLY,
    copy_file,
    disk_full_errors,
    remove_stale_workspaces,
    sync,
    workspace,
)
from tenants.base.errors import ErrorCode, HmiError

CHUNK_BYTES = 1 << 20
UPLOADS_FOLDER = ".uploads"
CHECK_RESULTS_FOLDER = ".check_results"
WORKSPACE_MAX_AGE_S = 24 * 3600.0
ORPHAN_AGE_S = 3600.0


class Readable(Protocol):
    """A stream of bytes: an open file, a request, or Django's uploaded file."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class FileDigest:
    """The checksum and size of a file."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A complete file on disk, and the digest it must have. ``on_read`` as of ``formats.lines.Source``."""

    path: Path
    digest: FileDigest
    on_read: Callable[[int], object] = field(default=lambda _: None, compare=False)


class UploadStore:
    """The folder of uploads. Files are written to a workspace and then renamed to their final path."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str) -> Path:
        """The path of the file with this checksum, whether or not it exists."""
        return self.root / sha256[:2] / sha256

    def upload_path(self, key: object) -> Path:
        """The path of an upload's file, from its first byte until a corpus, dataset or file is made of it."""
        return self.root / UPLOADS_FOLDER / str(key)

    def check_result_folder(self, key: object) -> Path:
        """The folder with the canonical files that a check wrote, until they are stored."""
        return self.root / CHECK_RESULTS_FOLDER / str(key)

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A temporary folder. Removes stale ones of killed processes first. Raises ``out_of_disk``."""
        with disk_full_errors():
            remove_stale_workspaces(self.root, older_than_s=WORKSPACE_MAX_AGE_S)
            with workspace(self.root) as folder:
                yield folder

    def add(self, source: Path, digest: FileDigest) -> Path:
        """Move a finished file, which nobody else has open, into the store. Survives power loss.

        Replaces an existing file, since that one may have been damaged.
        """
        target = self.path(digest.sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.chmod(READ_ONLY)
        sync(source)
        source.replace(target)
        sync(target.parent)
        return target

    def discard(self, sha256: str) -> None:
        """Remove the file if it exists. The caller must know that no row refers to it."""
        self.path(sha256).unlink(missing_ok=True)

    def delete_orphans(self, folder: str, known: Callable[[], Iterable[object]]) -> int:
        """Delete what lies in ``UPLOADS_FOLDER`` or ``CHECK_RESULTS_FOLDER`` for an hour without a row.

        ``known`` gives the keys of the rows. Returns how many files or folders were deleted.
        """
        limit = time.time() - ORPHAN_AGE_S
        old = []
        for path in (self.root / folder).glob("*"):
            with suppress(FileNotFoundError):  # used or deleted meanwhile
                if path.stat().st_mtime < limit:
                    old.append(path)
        names = set(map(str, known())) if old else set()
        orphans = [path for path in old if path.name not in names]
        for path in orphans:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        return len(orphans)


def upload_store() -> UploadStore:
    """The store of this installation (``HMI_UPLOAD_ROOT``)."""
    return UploadStore(Path(settings.HMI_UPLOAD_ROOT))


def stored_path(sha256: str) -> Path:
    """The path of the stored file with this checksum."""
    return upload_store().path(sha256)


def stored_open(sha256: str) -> IO[bytes]:
    """The open file with this checksum. Raises ``corrupt_artifact`` if it is gone."""
    try:
        return stored_path(sha256).open("rb")
    except FileNotFoundError as error:
        message = "The file is missing on this server. Contact an administrator."
        raise HmiError(ErrorCode.CORRUPT_ARTIFACT, message) from error


def digest_file(path: Path) -> FileDigest:
    """The checksum and size of a file on disk."""
    with path.open("rb") as stream:
        return FileDigest(hashlib.file_digest(stream, "sha256").hexdigest(), path.stat().st_size)


def copy_verified(file: StoredFile, target: Path, *, name: str) -> None:
    """Copy a file that others may have open, or that is in the store. ``corrupt_artifact`` on a mismatch."""
    copy_file(file.path, target)
    verify_file(StoredFile(target, file.digest), name=name)


def verify_file(file: StoredFile, *, name: str) -> None:
    """Read the whole file. ``corrupt_artifact`` unless it has the expected digest."""
    if not file.path.is_file() or digest_file(file.path) != file.digest:
        raise corrupt_file_error(name)


def corrupt_file_error(name: str) -> HmiError:
    """The error for a file on this server that was changed. ``name`` is its owner's name for it."""
    message = f"{name} is damaged on this server. Send it again, or ask an administrator to restore it."
    return HmiError(ErrorCode.CORRUPT_ARTIFACT, message)

"""The artifact store: immutable folders addressed by the sha256 of their content.

An artifact lives at ``<root>/<kind>/<digest[:2]>/<digest>/``. It is written under ``<root>/.incoming/``,
synced to disk and renamed into place, so a reader sees all of it or nothing. It does not need Django.
"""

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict
from uuid import UUID

from tenants.base.disk import INCOMING, READ_ONLY, remove_stale_workspaces, sync, workspace
from tenants.base.errors import ErrorCode, HmiError

KINDS: Final = ("root", "lower", "plot", "hplm", "cascade", "answers")


class FileEntry(TypedDict):
    """One file of an artifact: sha256 in hex, size in bytes."""

    sha256: str
    size: int


class ArtifactDamaged(HmiError):
    """An artifact is missing, or its content does not match its digest."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INTERNAL, message)


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """An artifact in the store; ``files`` by relative name, ``size`` in bytes."""

    kind: str
    digest: str
    size: int
    files: Mapping[str, FileEntry]


def files_digest(files: Mapping[str, FileEntry]) -> str:
    """The sha256 (hex) of the canonical JSON of a file table."""
    canonical = json.dumps(files, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


class ArtifactStore:
    """Reads and writes artifacts below one folder; safe for any number of processes at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, kind: str, digest: str) -> Path:
        """The path of an artifact, whether or not it exists."""
        _require_kind(kind)
        return self.root / kind / digest[:2] / digest

    @contextmanager
    def workspace(self, kind: str) -> Iterator[Path]:
        """A temporary folder on the store's disk to build an artifact in."""
        _require_kind(kind)
        with workspace(self.root, prefix=f"{kind}-") as folder:
            yield folder

    def ingest(self, kind: str, folder: Path) -> StoredArtifact:
        """Move a folder into the store, or copy it if it is on another disk.

        Ingesting the same content twice gives the same artifact, and replaces a damaged copy. Raises
        ``ArtifactDamaged`` for an empty folder, or one with anything but plain files.
        """
        _require_kind(kind)
        with self.workspace(kind) as staging:
            staged = staging / "content"
            if folder.is_relative_to(self.root / INCOMING):
                folder.rename(staged)
            else:
                shutil.copytree(folder, staged, symlinks=True)
            files = _read_files(staged)
            stored = StoredArtifact(
                kind=kind,
                digest=files_digest(files),
                size=sum(entry["size"] for entry in files.values()),
                files=files,
            )
            _make_durable(staged)
            self._move_into_place(staged, stored, trash=staging / "replaced")
        return stored

    def verify(self, kind: str, digest: str) -> None:
        """Read the artifact, and raise ``ArtifactDamaged`` unless it matches its digest."""
        folder = self.path(kind, digest)
        if not folder.is_dir():
            raise ArtifactDamaged(f"Artifact {kind}/{digest[:12]} is not in the store.")
        found = files_digest(_read_files(folder))
        if found != digest:
            raise ArtifactDamaged(
                f"Artifact {kind}/{digest[:12]} was changed on disk: it now reads {found[:12]}."
            )

    def sweep(self, *, older_than_s: float) -> int:
        """Remove workspaces of killed processes that are older than this. Returns how many."""
        return remove_stale_workspaces(self.root, older_than_s=older_than_s)

    def _move_into_place(self, staged: Path, stored: StoredArtifact, *, trash: Path) -> None:
        target = self.path(stored.kind, stored.digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        # A new mtime keeps the garbage collector away until the artifact is attached.
        os.utime(staged)
        try:
            staged.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            # The artifact exists already: the same content, unless the disk damaged it.
            try:
                os.utime(target)
                self.verify(stored.kind, stored.digest)
            except ArtifactDamaged:
                target.rename(trash)
                staged.rename(target)
        sync(target.parent)


def _require_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"unknown artifact kind {kind!r}")


def _read_files(folder: Path) -> dict[str, FileEntry]:
    files: dict[str, FileEntry] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            continue
        if not stat.S_ISREG(mode):
            raise ArtifactDamaged(f"{name} is not a plain file.")
        files[name] = {"sha256": _sha256(path), "size": path.stat().st_size}
    if not files:
        raise ArtifactDamaged("An artifact needs at least one file.")
    return files


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _make_durable(folder: Path) -> None:
    """Make the files read-only, and sync them and their folders."""
    for path in folder.rglob("*"):
        if not path.is_dir():
            path.chmod(READ_ONLY)
        sync(path)
    sync(folder)


STAGING: Final = ".staging"


def staging_folder(store: Path, job_id: UUID) -> Path:
    """The staging folder of a job, whether or not it exists."""
    return store / STAGING / str(job_id)


def staged_jobs(store: Path) -> Iterator[tuple[UUID, Path]]:
    """The ids of jobs that have a staging folder, with the folder."""
    folder = store / STAGING
    for found in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            yield UUID(found.name), found
        except ValueError:
            continue

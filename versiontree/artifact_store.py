"""The artifact store: immutable folders addressed by the sha256 of what they hold.

An artifact lives at ``<root>/<kind>/<digest[:2]>/<digest>/``. It is written under ``<root>/.incoming/``,
synced to disk and renamed into place, so a reader sees all of it or nothing. No Django in here.
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

from tenants.base.disk import INCOMING, remove_stale_workspaces, sync, workspace
from tenants.base.errors import ErrorCode, HmiError

KINDS: Final = ("root", "lower", "plot", "hplm", "answers")


class FileEntry(TypedDict):
    """One file of an artifact: sha256 in hex, size in bytes."""

    sha256: str
    size: int


class ArtifactDamaged(HmiError):
    """What is on disk is not what the digest promises."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INTERNAL, message)


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """An artifact in its final place; ``files`` by relative name, ``size`` in bytes."""

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
        """Where the artifact lives, whether or not it is there."""
        _require_kind(kind)
        return self.root / kind / digest[:2] / digest

    @contextmanager
    def workspace(self, kind: str) -> Iterator[Path]:
        """An empty folder on the store's own disk to build an artifact in; gone afterwards."""
        _require_kind(kind)
        with workspace(self.root, prefix=f"{kind}-") as folder:
            yield folder

    def ingest(self, kind: str, folder: Path) -> StoredArtifact:
        """Move a finished folder into the store; the folder is consumed.

        A folder elsewhere is copied first. Ingesting the same content twice gives the same artifact, and
        replaces a copy on disk that no longer verifies. Raises ``ArtifactDamaged`` for an empty folder or one
        that holds anything but plain files.
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
            self._place(staged, stored, aside=staging / "replaced")
        return stored

    def verify(self, kind: str, digest: str) -> None:
        """Read the artifact again; raises ``ArtifactDamaged`` unless it is exactly what its digest says."""
        folder = self.path(kind, digest)
        if not folder.is_dir():
            raise ArtifactDamaged(f"Artifact {kind}/{digest[:12]} is not in the store.")
        found = files_digest(_read_files(folder))
        if found != digest:
            raise ArtifactDamaged(
                f"Artifact {kind}/{digest[:12]} was changed on disk: it now reads {found[:12]}."
            )

    def sweep(self, *, older_than_s: float) -> int:
        """Remove workspaces that a killed process left behind and nobody touched since; returns how many."""
        return remove_stale_workspaces(self.root, older_than_s=older_than_s)

    def _place(self, staged: Path, stored: StoredArtifact, *, aside: Path) -> None:
        target = self.path(stored.kind, stored.digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        # From now on it is young, whoever made it first: the collector leaves it time to be attached.
        os.utime(staged)
        try:
            staged.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            # A non-empty folder is there already: the same content, unless the disk damaged it.
            try:
                os.utime(target)
                self.verify(stored.kind, stored.digest)
            except ArtifactDamaged:
                target.rename(aside)
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
    """Make the files read-only and put them and their folders on disk."""
    for path in folder.rglob("*"):
        if not path.is_dir():
            path.chmod(0o444)
        sync(path)
    sync(folder)


STAGING: Final = ".staging"


def staging_folder(store: Path, job_id: UUID) -> Path:
    """The staging folder of a job, whether or not it is there."""
    return store / STAGING / str(job_id)


def staged_jobs(store: Path) -> Iterator[tuple[UUID, Path]]:
    """The jobs that have a staging folder, with it."""
    folder = store / STAGING
    for found in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            yield UUID(found.name), found
        except ValueError:
            continue

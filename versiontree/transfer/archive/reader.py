"""Read and unpack an archive, comparing every file with the manifest."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tenants.base.disk import disk_full_errors
from versiontree.artifact_store import FileEntry
from versiontree.transfer.archive.layout import (
    ARTIFACTS,
    CARD,
    CONFIG,
    MANIFEST,
    MAX_TEXT_BYTES,
    Contents,
    invalid_archive,
    json_object,
)
from versiontree.transfer.archive.manifest import manifest_contents, manifest_files
from versiontree.transfer.archive.sources import CHUNK, Source, files_check, read_errors, source_open


@dataclass(frozen=True, slots=True)
class Archive:
    """An open archive. Its manifest is validated, its files are not compared with that yet."""

    contents: Contents
    source: Source

    def unpack(self, folder: Path) -> None:
        """Write its files below `folder`.

        Raises ``invalid_archive`` for a file that differs from the manifest, ``out_of_disk``. After an error
        `folder` is incomplete.
        """
        for name, entry in self.contents.files.items():
            _unpack(self.source, name, entry, folder)


@contextmanager
def archive_open(archive: Path | IO[bytes], *, max_bytes: int) -> Iterator[Archive]:
    """Open an archive and validate its manifest.

    Files that the manifest does not name are ignored. Raises ``invalid_archive`` if one that it names is
    missing or no export writes it, and for too high a compression ratio; ``file_too_large`` for more than
    `max_bytes`.
    """
    with source_open(archive) as source:
        source.enter_folder_of(MANIFEST)
        manifest = json_object(_small(source, MANIFEST), MANIFEST)
        files = manifest_files(manifest)
        _check_files(source, files, max_bytes)
        config = _small(source, CONFIG)
        _compare(CONFIG, files[CONFIG], len(config), hashlib.sha256(config).hexdigest())
        yield Archive(manifest_contents(manifest, json_object(config, CONFIG)), source)


def unpacked(folder: Path, kind: str, digest: str) -> Path:
    """The folder of an artifact in an unpacked archive."""
    return folder / ARTIFACTS / kind / digest


def _check_files(source: Source, files: dict[str, FileEntry], max_bytes: int) -> None:
    """Compare the manifest with the names and sizes that the archive claims."""
    if missing := sorted(({CARD, CONFIG} | files.keys()) - source.sizes.keys()):
        raise invalid_archive(f"{missing[0][:80]} is missing.")
    for name in (CARD, CONFIG):
        if name not in files:
            raise invalid_archive(f"{name} is missing from the manifest.")
    files_check(source, [MANIFEST, *files], max_bytes=max_bytes)
    for name, entry in files.items():
        if source.sizes[name] != entry["size"]:
            raise invalid_archive(f"{name} has {source.sizes[name]:,} bytes, not {entry['size']:,}.")


def _small(source: Source, name: str) -> bytes:
    if source.sizes[name] > MAX_TEXT_BYTES:
        raise invalid_archive(f"{name} is too long.")
    with read_errors(name), source.open(name) as stream:
        return stream.read(MAX_TEXT_BYTES)


def _unpack(source: Source, name: str, entry: FileEntry, folder: Path) -> None:
    digest, size = hashlib.sha256(), 0
    with read_errors(name):
        stream = source.open(name)
    target = folder / name
    with stream, disk_full_errors():
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            while size <= entry["size"]:
                with read_errors(name):
                    chunk = stream.read(CHUNK)
                if not chunk:
                    break
                size += len(chunk)
                digest.update(chunk)
                out.write(chunk)
    _compare(name, entry, size, digest.hexdigest())


def _compare(name: str, entry: FileEntry, size: int, digest: str) -> None:
    if (size, digest) != (entry["size"], entry["sha256"]):
        raise invalid_archive(
            f"{name} is not the file that the manifest names: its size or its sha256 differs."
        )

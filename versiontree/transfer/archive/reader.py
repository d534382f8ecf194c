"""Unpacking an archive: every byte is compared with the manifest before anybody else sees it."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tenants.base.disk import disk_full_errors
from versiontree.artifact_store import FileEntry
from versiontree.transfer.archive.layout import ARTIFACTS, CARD, CONFIG, MANIFEST, Contents, refused
from versiontree.transfer.archive.manifest import contents_of, files_of
from versiontree.transfer.archive.sources import Source, reading, sizes_check, source_open
from versiontree.transfer.archive.strict_json import MAX_BYTES, object_of

CHUNK: Final = 1024**2


@dataclass(frozen=True, slots=True)
class Archive:
    """One that is open: what it says makes sense, the bytes of its files are not yet compared with that."""

    contents: Contents
    source: Source

    def unpack(self, folder: Path) -> None:
        """Write its files below `folder`.

        Raises ``invalid_archive`` for any that is not the one that was named, ``out_of_disk``. What is in
        `folder` then is of no use.
        """
        for name, entry in self.contents.files.items():
            _unpack(self.source, name, entry, folder)


@contextmanager
def archive_open(archive: Path | IO[bytes], *, most_bytes: int) -> Iterator[Archive]:
    """Read what an archive says of itself.

    Raises ``invalid_archive`` for whatever is not exactly what an export wrote, and for a zip file that
    unpacks to many times its size; ``file_too_large`` for more than `most_bytes`.
    """
    with source_open(archive) as source:
        sizes_check(source, source.sizes, most_bytes=most_bytes)
        manifest = object_of(_small(source, MANIFEST), MANIFEST)
        files = files_of(manifest)
        _check_names(source, files)
        config = _small(source, CONFIG)
        _compare(CONFIG, files[CONFIG], len(config), hashlib.sha256(config).hexdigest())
        yield Archive(contents_of(manifest, object_of(config, CONFIG)), source)


def unpacked(folder: Path, kind: str, digest: str) -> Path:
    """Where an artifact of an unpacked archive is."""
    return folder / ARTIFACTS / kind / digest


def _check_names(source: Source, files: dict[str, FileEntry]) -> None:
    expected = {MANIFEST, CARD, CONFIG} | files.keys()
    if odd := sorted(expected ^ source.sizes.keys()):
        word = "is missing" if odd[0] in expected else "has no place in the archive"
        raise refused(f"{odd[0][:80]} {word}.")
    for name in (CARD, CONFIG):
        if name not in files:
            raise refused(f"{name} is missing from the manifest.")
    for name, entry in files.items():
        if source.sizes[name] != entry["size"]:
            raise refused(f"{name} has {source.sizes[name]:,} bytes, not {entry['size']:,}.")


def _small(source: Source, name: str) -> bytes:
    if name not in source.sizes:
        raise refused(f"{name} is missing.")
    if source.sizes[name] > MAX_BYTES:
        raise refused(f"{name} is too long.")
    with reading(name), source.open(name) as stream:
        return stream.read(MAX_BYTES)


def _unpack(source: Source, name: str, entry: FileEntry, folder: Path) -> None:
    digest, size = hashlib.sha256(), 0
    with reading(name):
        stream = source.open(name)
    target = folder / name
    with stream, disk_full_errors():
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            while size <= entry["size"]:
                with reading(name):
                    chunk = stream.read(CHUNK)
                if not chunk:
                    break
                size += len(chunk)
                digest.update(chunk)
                out.write(chunk)
    _compare(name, entry, size, digest.hexdigest())


def _compare(name: str, entry: FileEntry, size: int, digest: str) -> None:
    if (size, digest) != (entry["size"], entry["sha256"]):
        raise refused(f"{name} is not the file that the manifest names: its size or its sha256 differs.")

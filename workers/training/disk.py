"""Disk writes of a job: atomic folders, sealed folders, fsync, and one error for a full disk."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from safetensors import SafetensorError

from inference.hplm.errors import HplmError

DISK_FULL: Final = "The disk is full. Ask the administrator to make room, then start the job again."
_NUMBERS: Final = (errno.ENOSPC, errno.EDQUOT)
# Libraries pass the system's error on as text only.
_WORDS: Final = (
    "No space left on device",
    "Disk quota exceeded",
    *(f"os error {number}" for number in _NUMBERS),
)


def is_disk_full(error: BaseException) -> bool:
    """Whether an error is that of a full disk: one of the system by its number, any other by its words."""
    if isinstance(error, OSError):
        return error.errno in _NUMBERS
    return any(words in str(error) for words in _WORDS)


@contextmanager
def disk_full_errors() -> Iterator[None]:
    """Turn what Python and safetensors say of a full disk into HplmError("out_of_disk")."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if is_disk_full(error):
            raise HplmError("out_of_disk", DISK_FULL) from error
        raise


def sync(path: Path) -> None:
    """Put a file or the entries of a folder on disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def atomic_folders(*folders: Path) -> Iterator[None]:
    """Remove what was written to `folders` when the block does not come to its end, cancelled or failed.

    A folder that was there before stays, empty. A full disk is HplmError("out_of_disk").
    """
    existed = [folder.exists() for folder in folders]
    try:
        with disk_full_errors():
            yield
    except BaseException:
        for folder, before in zip(folders, existed, strict=True):
            shutil.rmtree(folder, ignore_errors=True)
            if before:
                folder.mkdir()
        raise


SEAL: Final = "sealed.json"


Report = dict[str, Any]


def build_once(folder: Path, make: Callable[[Path], Report]) -> Report:
    """The report of a sealed folder, which `make` fills first if it is not there or not sound.

    Two makers at once are no harm: the first to end stays.
    """
    if (report := read_seal(folder)) is not None:
        return report
    shutil.rmtree(folder, ignore_errors=True)
    aside = folder.with_name(f"{folder.name}.{uuid4().hex[:8]}.partial")
    # Not its parents: whoever removed those has no more use for what is made here.
    aside.mkdir()
    try:
        with disk_full_errors():
            report = make(aside)
            _seal(aside, report)
        _place(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return report


def read_seal(folder: Path) -> Report | None:
    """What the maker of a folder said about it; None unless every file is what it was then."""
    try:
        about = json.loads((folder / SEAL).read_text(encoding="utf-8"))
        sound = all(_sha256(folder / name) == digest for name, digest in about["files"].items())
    except (OSError, ValueError, KeyError):
        return None
    report: Report = about["report"]
    return report if sound else None


def seal_digest(folder: Path) -> str:
    """The sha256 of a folder's seal, and so of all its files; empty when there is none."""
    seal = folder / SEAL
    return _sha256(seal) if seal.is_file() else ""


def _seal(folder: Path, report: Report) -> None:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for path in files:
        sync(path)
    about = {"files": {path.name: _sha256(path) for path in files}, "report": report}
    (folder / SEAL).write_text(json.dumps(about, sort_keys=True), encoding="utf-8")
    sync(folder / SEAL)
    sync(folder)


def _place(aside: Path, folder: Path) -> None:
    try:
        aside.rename(folder)
    except OSError:
        # Not empty: somebody else made it meanwhile.
        if not (folder / SEAL).is_file():
            raise
    sync(folder.parent)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

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

from inference.errors import HplmError

DISK_FULL: Final = "The disk is full. Ask an administrator to free disk space, then retry the job."
_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT)
# Libraries pass the system's error on as text.
_MESSAGES: Final = (
    "No space left on device",
    "Disk quota exceeded",
    *(f"os error {number}" for number in _ERRNOS),
)


def is_disk_full(error: BaseException) -> bool:
    """Whether the disk was full: by the errno of an OSError, by the message of any other error."""
    if isinstance(error, OSError):
        return error.errno in _ERRNOS
    return any(message in str(error) for message in _MESSAGES)


@contextmanager
def disk_full_errors() -> Iterator[None]:
    """Raise HplmError("out_of_disk") for errors of Python and safetensors on a full disk."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        if is_disk_full(error):
            raise HplmError("out_of_disk", DISK_FULL) from error
        raise


def sync(path: Path) -> None:
    """fsync a file or folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_folders(*folders: Path) -> Iterator[None]:
    """Remove `folders` when the block raises; one that existed before is left empty.

    Raises HplmError("out_of_disk") for a full disk.
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
    """The report of a sealed folder; `make` fills it first if it is missing or damaged.

    Two processes may build at once: the first to finish wins.
    """
    if (report := read_seal(folder)) is not None:
        return report
    shutil.rmtree(folder, ignore_errors=True)
    temporary = folder.with_name(f"{folder.name}.{uuid4().hex[:8]}.partial")
    # Without parents: if those were removed, the result is not needed any more.
    temporary.mkdir()
    try:
        with disk_full_errors():
            report = make(temporary)
            _seal(temporary, report)
        _publish(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return report


def read_seal(folder: Path) -> Report | None:
    """The report of a sealed folder; None unless every file is as it was when sealed."""
    try:
        about = json.loads((folder / SEAL).read_text(encoding="utf-8"))
        sound = all(_sha256(folder / name) == digest for name, digest in about["files"].items())
    except (OSError, ValueError, KeyError):
        return None
    report: Report = about["report"]
    return report if sound else None


def seal_digest(folder: Path) -> str:
    """The sha256 of a folder's seal, which covers all its files; empty when there is none."""
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


def _publish(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError:
        # Not empty: another process built it meanwhile.
        if not (folder / SEAL).is_file():
            raise
    sync(folder.parent)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

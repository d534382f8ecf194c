"""Folders in which files are made ready before a rename puts them into a store. No Django in here."""

import math
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INCOMING = ".incoming"


@contextmanager
def workspace(store: Path, *, prefix: str = "") -> Iterator[Path]:
    """An empty folder on the store's own disk; it is gone afterwards, whatever happens."""
    folder = store / INCOMING / f"{prefix}{uuid.uuid4().hex}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(store: Path, *, older_than_s: float) -> int:
    """Remove workspaces that killed processes left behind and nobody touched since; returns how many."""
    incoming = store / INCOMING
    if not incoming.is_dir():
        return 0
    limit = time.time() - older_than_s
    abandoned = [folder for folder in incoming.iterdir() if _last_touched(folder) < limit]
    for folder in abandoned:
        shutil.rmtree(folder, ignore_errors=True)
    return len(abandoned)


def sync(path: Path) -> None:
    """Put a file or the entries of a folder on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _last_touched(folder: Path) -> float:
    """When, in seconds since the epoch; infinitely late where its owner finishes while we look."""
    times: list[float] = []
    for place, _, files in os.walk(folder):
        for path in (Path(place), *(Path(place) / name for name in files)):
            try:
                times.append(path.lstat().st_mtime)
            except FileNotFoundError:
                return math.inf
    return max(times, default=math.inf)

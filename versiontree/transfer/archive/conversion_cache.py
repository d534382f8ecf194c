"""Adapters that models were converted to, kept for whoever asks for the same again.

Each is a folder among the store's workspaces, so that it goes a day after it was last asked for, as those of
killed processes do. What a format cannot hold is kept, too: to find that out takes as long.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any, Final

from tenants.base.disk import INCOMING
from versiontree.artifact_store import ArtifactStore

RULES: Final = 1
"""One more whenever the same model is converted to something else than before."""
MAX_BYTES: Final = 1024**3
"""Of all that is kept: those that were asked for longest ago go first."""
CHUNK: Final = 1024**2
PREFIX: Final = "conversion-"
ADAPTER: Final = "adapter.zip"
REFUSAL: Final = "refusal.txt"


def conversion_key(**parts: Any) -> str:
    """A name for what follows from these parts alone."""
    return hashlib.sha256(json.dumps({**parts, "rules": RULES}, sort_keys=True).encode()).hexdigest()


def conversion_find(store: ArtifactStore, key: str) -> IO[bytes] | str | None:
    """The zip file that is kept under this key, open; why there is none, in words; or None: make one."""
    folder = _folder(store, key)
    with suppress(FileNotFoundError):
        os.utime(folder)
        return (folder / ADAPTER).open("rb")
    with suppress(FileNotFoundError):
        return (folder / REFUSAL).read_text(encoding="utf-8")
    return None


def conversion_store(store: ArtifactStore, key: str, made: Path) -> None:
    """Keep a folder with either of the two under this key, if it fits. It is consumed."""
    room = MAX_BYTES - _size(made)
    if room < 0:
        return
    kept = sorted(store.root.glob(f"{INCOMING}/{PREFIX}*"), key=_last_used_at)
    taken = {folder: _size(folder) for folder in kept}
    for folder in kept:
        if sum(taken.values()) > room:
            shutil.rmtree(folder, ignore_errors=True)
            del taken[folder]
    with suppress(OSError):  # somebody else kept the same
        made.rename(_folder(store, key))


def chunks_of(stream: IO[bytes]) -> Iterator[bytes]:
    """The bytes of an open file, which is closed behind them."""
    with closing(stream):
        while chunk := stream.read(CHUNK):
            yield chunk


def _folder(store: ArtifactStore, key: str) -> Path:
    return store.root / INCOMING / f"{PREFIX}{key}"


def _last_used_at(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except FileNotFoundError:
        return 0


def _size(folder: Path) -> int:
    return sum(_bytes(file) for file in folder.glob("*"))


def _bytes(file: Path) -> int:
    with suppress(FileNotFoundError):
        return file.stat().st_size
    return 0

"""A cache of models converted to adapters, and of the reasons why a model cannot be converted.

Each entry is a folder among the store's workspaces, so it is removed a day after its last use, like those of
killed processes.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any, Final

from tenants.accounts.models import Tenant
from tenants.base.disk import INCOMING
from versiontree.artifact_store import ArtifactStore

CONVERSION_VERSION: Final = 1
"""Incremented when conversions of the same model change."""
MAX_BYTES: Final = 1024**3
"""The size of the cache. The least recently used entries are removed first."""
CHUNK: Final = 1024**2
PREFIX: Final = "conversion-"
ADAPTER: Final = "adapter.zip"
REFUSAL: Final = "refusal.txt"


def conversion_key(tenant: Tenant | None, **parts: Any) -> str:
    """The cache key of a tenant's conversion with these inputs. Others with the same model have their own, so
    that nobody learns from the time it takes what others have exported."""
    digest = hashlib.sha256(
        json.dumps({**parts, "conversion_version": CONVERSION_VERSION}, sort_keys=True).encode()
    ).hexdigest()
    return f"{tenant.pk if tenant else 'platform'}-{digest}"


def conversion_find(store: ArtifactStore, key: str) -> IO[bytes] | str | None:
    """The open zip file under this key, or the reason why it cannot be converted. None if not cached."""
    folder = _folder(store, key)
    with suppress(FileNotFoundError):
        os.utime(folder)
        return (folder / ADAPTER).open("rb")
    with suppress(FileNotFoundError):
        return (folder / REFUSAL).read_text(encoding="utf-8")
    return None


def conversion_store(store: ArtifactStore, key: str, made: Path) -> None:
    """Move a folder with the zip file or the reason into the cache, if it fits."""
    available = MAX_BYTES - _size(made)
    if available < 0:
        return
    entries = sorted(store.root.glob(f"{INCOMING}/{PREFIX}*"), key=_last_used_at)
    sizes = {folder: _size(folder) for folder in entries}
    for folder in entries:
        if sum(sizes.values()) > available:
            shutil.rmtree(folder, ignore_errors=True)
            del sizes[folder]
    with suppress(OSError):  # another process stored the same
        made.rename(_folder(store, key))


def conversions_delete(store: ArtifactStore, *, tenant: Tenant) -> None:
    """Remove the conversions of a tenant's models."""
    for folder in store.root.glob(f"{INCOMING}/{PREFIX}{tenant.pk}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def file_chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """The chunks of an open file, which is closed at the end."""
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

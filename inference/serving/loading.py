"""Reading from the artifact store, only when the files are the ones that were published."""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import torch

from inference.device_errors import raise_if_device_lost
from inference.errors import HplmError
from inference.hplm.hplm import Hplm
from inference.manifest import ServedHplm

log = logging.getLogger(__name__)
Loaded = TypeVar("Loaded")
Stamp = tuple[int, int]
RETRY_AFTER_S: Final = 30.0
"""What could not be loaded is tried again then, or when its files have changed."""


def follow(
    loaded: Mapping[str, Loaded], wanted: Iterable[str], load: Callable[[str], Loaded]
) -> tuple[dict[str, Loaded], str]:
    """All that is wanted, as far as it is ``loaded`` or can be; and the last reason why something cannot, or
    "". What a failed load had taken of the device is given back. Raises DeviceLostError."""
    names = set(wanted)
    found = {name: there for name, there in loaded.items() if name in names}
    reason = ""
    for name in sorted(names - found.keys()):
        try:
            found[name] = load(name)
        except Exception as error:  # one damaged artifact must not stop the serving of the others
            raise_if_device_lost(error)
            log.exception("%s cannot be loaded", name)
            reason = f"{name[:12]}: {error}"
    if reason:
        torch.cuda.empty_cache()
    return found, reason


def load_verified(folder: Path, served: ServedHplm, sha256: Callable[[Path], str]) -> Hplm:
    """The model in ``folder``, with its PET in the stored dtype; HplmError(corrupt_artifact) when a file is
    absent, altered or unreadable."""
    verify(folder, served.files, sha256)
    hplm = Hplm.load(folder, dtype=None)
    if hplm.task != served.task:
        raise HplmError("corrupt_artifact", f"published for {served.task}, made for {hplm.task}")
    return hplm


def sha256_of(path: Path) -> str:
    """Of the file's content, in hex; HplmError(corrupt_artifact) when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def verify(folder: Path, files: Mapping[str, str], sha256: Callable[[Path], str] = sha256_of) -> None:
    """HplmError(corrupt_artifact) unless each file is there with the sha256 that stands beside its name."""
    for name, expected in files.items():
        if sha256(folder / name) != expected:
            raise HplmError("corrupt_artifact", f"{name} is damaged: its checksum is not the published one")


def verify_artifact(folder: Path, sha256: Callable[[Path], str] = sha256_of) -> None:
    """HplmError(corrupt_artifact) unless the folder's files are the ones that its name, the artifact's
    digest, was made from (``versiontree.artifact_store.files_digest``)."""
    files = {
        path.relative_to(folder).as_posix(): {"sha256": sha256(path), "size": stamp_of(path)[0]}
        for path in sorted(folder.rglob("*"))
        if not path.is_dir()
    }
    canonical = json.dumps(files, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if hashlib.sha256(canonical.encode()).hexdigest() != folder.name:
        kind = folder.parent.parent.name
        raise HplmError(
            "corrupt_artifact", f"{kind} {folder.name[:12]} is damaged: its files are not the published ones"
        )


def stamp_of(path: Path) -> Stamp:
    """Size in bytes and time of the last change in ns: what is alike has not been changed. Raises
    HplmError(corrupt_artifact) when there is no file."""
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return found.st_size, found.st_mtime_ns


class Checksums:
    """``sha256_of`` for large files: each is read once, until its size or time changes. For any threads."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Stamp, str]] = {}

    def of(self, path: Path) -> str:
        """As ``sha256_of``."""
        stamp = stamp_of(path)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = self._known[path] = stamp, sha256_of(path)
        return known[1]

    def keep(self, folders: Container[Path]) -> None:
        """Forget the files of all others."""
        self._known = {path: known for path, known in [*self._known.items()] if path.parent in folders}


class Refusals:
    """Failed loads, by digest. A load is tried again when a file has changed, and in any case
    after half a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, list[Stamp | None], HplmError]] = {}

    def attempt(self, digest: str, files: Iterable[Path], load: Callable[[], Loaded]) -> Loaded:
        """What ``load`` gives; its HplmError, or the one that it raised last."""
        stamps = [_stamp(path) for path in files]
        until, before, error = self._known.pop(digest, (0.0, [], None))
        if error is not None and stamps == before and self._clock() < until:
            self._known[digest] = until, before, error
            raise HplmError(error.code, error.message)
        try:
            return load()
        except HplmError as error:
            self._remember(digest, stamps, error)
            raise

    def forget(self) -> None:
        """Let everything be tried again."""
        self._known = {}

    def _remember(self, digest: str, stamps: list[Stamp | None], error: HplmError) -> None:
        now = self._clock()
        self._known = {name: known for name, known in self._known.items() if known[0] > now}
        self._known[digest] = now + RETRY_AFTER_S, stamps, HplmError(error.code, error.message)


def _stamp(path: Path) -> Stamp | None:
    try:
        return stamp_of(path)
    except HplmError:
        return None


def _unreadable(path: Path, error: OSError) -> HplmError:
    return HplmError("corrupt_artifact", f"{path.name} cannot be read: {error.strerror}")

"""A memory limit for this process alone: a memory cgroup of its own, whose page cache counts, too."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
UNLIMITED: Final = {"memory.max": "max", "memory.limit_in_bytes": "-1"}
"""The file of the limit by version 2 and by version 1, and how it is lifted."""
USED: Final = {"memory.max": "memory.current", "memory.limit_in_bytes": "memory.usage_in_bytes"}


class NoMemoryCgroupError(Exception):
    """This process cannot make a memory cgroup."""


class MemoryLimit:
    """The cgroup of this process. Use `memory_limit`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._limit = next(folder / name for name in UNLIMITED if (folder / name).is_file())

    @property
    def used_bytes(self) -> int:
        """What counts in the limit now, the page cache included."""
        return int((self._folder / USED[self._limit.name]).read_text(encoding="ascii"))

    def set(self, limit_bytes: int) -> None:
        """Bound everything, the page cache of files that are read from now on included."""
        self._limit.write_text(str(limit_bytes), encoding="ascii")

    def lift(self) -> None:
        """As it was at first."""
        self._limit.write_text(UNLIMITED[self._limit.name], encoding="ascii")


@contextmanager
def memory_limit() -> Iterator[MemoryLimit]:
    """A cgroup for this process until the end of the block, at first without a limit. Raises
    NoMemoryCgroupError."""
    top, own = _own_cgroup()
    folder = _new_cgroup((own, top))
    try:
        _move(folder)
        limit = MemoryLimit(folder)
        yield limit
        limit.lift()
    finally:
        _move(own)
        folder.rmdir()


def _own_cgroup() -> tuple[Path, Path]:
    """The top of the hierarchy that bounds memory, and this process's place in it."""
    lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    paths = {controllers: path.lstrip("/") for _, controllers, path in (line.split(":", 2) for line in lines)}
    top = CGROUPS / "memory" if "memory" in paths else CGROUPS
    return top, top / paths.get("memory", paths.get("", ""))


def _new_cgroup(parents: tuple[Path, ...]) -> Path:
    """A cgroup below the first of these that gives its children a limit."""
    for parent in parents:
        folder = parent / f"hmi-benchmark-{os.getpid()}"
        with suppress(OSError):
            folder.mkdir()
            if any((folder / name).is_file() for name in UNLIMITED):
                return folder
            folder.rmdir()
    raise NoMemoryCgroupError("No memory cgroup can be made here: run as root, with /sys/fs/cgroup writable.")


def _move(folder: Path) -> None:
    (folder / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

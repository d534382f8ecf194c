"""What a batch answers, on its way to becoming two files."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from tenants.base.disk import sync
from tenants.base.errors import ErrorCode, HmiError

RESULTS: Final = "results"
ERRORS: Final = "errors"
KINDS: Final = (RESULTS, ERRORS)


def path_in(folder: Path, kind: str) -> Path:
    """Where the one or the other lies."""
    return folder / f"{kind}.jsonl"


class Outputs:
    """Two files that grow at their ends. What a killed process wrote beyond the sizes that were noted is cut
    off when they are opened. Raises ``corrupt_artifact`` where one has less than was noted."""

    def __init__(self, folder: Path, sizes: dict[str, int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._files = {kind: _opened(path_in(folder, kind), size) for kind, size in sizes.items()}
        self.sizes = dict(sizes)
        sync(folder)

    def write(self, lines: Mapping[str, Iterable[bytes]]) -> None:
        """At the ends of both. Raises OSError with nothing counted."""
        whole = {kind: b"".join(those) for kind, those in lines.items()}
        for kind, content in whole.items():
            _write(self._files[kind], content)
        for kind, content in whole.items():
            self.sizes[kind] += len(content)

    def sync(self) -> None:
        """Put all of it on disk."""
        for file in self._files.values():
            file.flush()
            os.fdatasync(file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()


def _write(file: IO[bytes], content: bytes) -> None:
    left = memoryview(content)
    while left:  # on a disk that is almost full a write is short before it fails
        left = left[file.write(left) :]


def _opened(path: Path, size: int) -> IO[bytes]:
    path.touch()
    file = path.open("r+b", buffering=0)
    if path.stat().st_size < size:
        file.close()
        message = "What the batch had answered is missing on this server; an administrator must look."
        raise HmiError(ErrorCode.CORRUPT_ARTIFACT, message)
    file.truncate(size)
    file.seek(size)
    return file

"""The JSON Lines files of a batch: reads the input in chunks, and appends to the two output files."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from tenants.base.disk import free_space_check, sync
from tenants.base.errors import ErrorCode, HmiError

MAX_LINE_BYTES: Final = 8 * 1024**2
MAX_CHUNK_LINES: Final = 1024
MAX_CHUNK_BYTES: Final = 1024**2
"""A chunk is full at the first of these limits, or with as many inputs as one request may have. All its texts
are in memory."""
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
RESULTS: Final = "results"
ERRORS: Final = "errors"
OUTPUT_KINDS: Final = (RESULTS, ERRORS)


@dataclass(frozen=True, slots=True)
class InputLine:
    """A line that is not empty. ``number`` counts from 1, empty lines included. ``end`` is the offset of the
    next line. ``content`` is None if the line is too long."""

    number: int
    end: int
    content: bytes | None


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """The inputs of a line as the model's client takes them, or the ``error`` that its sender gets.
    ``custom_id`` is the sender's own id. ``options`` say how the endpoint formats the response."""

    number: int
    custom_id: str | None = None
    inputs: tuple[Any, ...] = ()
    error: HmiError | None = None
    options: object = None


@dataclass(slots=True)
class LineChunk:
    """Consecutive lines that are sent as one request. ``last`` is the number of the last line, ``end`` the
    offset after it."""

    lines: list[ParsedLine] = field(default_factory=list)
    end: int = 0
    last: int = 0

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs of all lines."""
        return tuple(one for line in self.lines for one in line.inputs)


def read_lines(stream: IO[bytes], *, after: int = 0) -> Iterator[InputLine]:
    """Yield the lines from the stream's position to its end. ``after`` is the number of lines before it.

    One line is in memory at a time, and of a line that is too long only a part.
    """
    number, end = after, stream.tell()
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        start, content = end, raw
        end += len(raw)
        while not raw.endswith(b"\n") and (raw := stream.readline(MAX_LINE_BYTES + 1)):
            end += len(raw)
        number += 1
        if start == 0:
            content = content.removeprefix(BYTE_ORDER_MARK)
        if content.strip():
            too_long = end - start > MAX_LINE_BYTES
            yield InputLine(number, end, None if too_long else content)


def chunk_lines(
    lines: Iterator[InputLine], parse: Callable[[InputLine], ParsedLine], max_inputs: int
) -> Iterator[LineChunk]:
    """Parse the lines and group them into requests of up to ``max_inputs``. The same lines always give the
    same chunks."""
    chunk, inputs, size = LineChunk(), 0, 0
    for line in lines:
        parsed = parse(line)
        length = len(line.content or b"")
        full = (
            len(chunk.lines) >= MAX_CHUNK_LINES
            or inputs + len(parsed.inputs) > max_inputs
            or size + length > MAX_CHUNK_BYTES
        )
        if chunk.lines and full:
            yield chunk
            chunk, inputs, size = LineChunk(), 0, 0
        chunk.lines.append(parsed)
        chunk.end, chunk.last = line.end, line.number
        inputs, size = inputs + len(parsed.inputs), size + length
    if chunk.lines:
        yield chunk


def output_path(folder: Path, kind: str) -> Path:
    """Path of the output file of this kind, RESULTS or ERRORS."""
    return folder / f"{kind}.jsonl"


class OutputFiles:
    """The two output files, opened for appending at the sizes that were saved.

    Bytes beyond these sizes were written by a process that was killed, and are truncated. Raises
    ``corrupt_artifact`` if a file is shorter than its saved size.
    """

    def __init__(self, folder: Path, sizes: dict[str, int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._files = {kind: _open_at(output_path(folder, kind), size) for kind, size in sizes.items()}
        self.sizes = dict(sizes)
        sync(folder)

    def write(self, lines: Mapping[str, Iterable[bytes]]) -> None:
        """Append lines by kind. If one write fails with OSError, or the disk is too full for them
        (``out_of_disk``), neither size grows."""
        contents = {kind: b"".join(those) for kind, those in lines.items()}
        free_space_check(self._folder, sum(map(len, contents.values())))
        for kind, content in contents.items():
            _write_all(self._files[kind], content)
        for kind, content in contents.items():
            self.sizes[kind] += len(content)

    def sync(self) -> None:
        """Flush both files to disk."""
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


def _write_all(file: IO[bytes], content: bytes) -> None:
    left = memoryview(content)
    while left:  # on a disk that is almost full a write is short before it fails
        left = left[file.write(left) :]


def _open_at(path: Path, size: int) -> IO[bytes]:
    path.touch()
    file = path.open("r+b", buffering=0)
    if path.stat().st_size < size:
        file.close()
        message = "Results of the batch are missing on this server. Contact an administrator."
        raise HmiError(ErrorCode.CORRUPT_ARTIFACT, message)
    file.truncate(size)
    file.seek(size)
    return file

"""The lines of a batch's file, one at a time, and what is asked at once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Final

from inference.queueing.messages import InferInput
from tenants.base.errors import HmiError

LONGEST_LINE_BYTES: Final = 8 * 1024**2
INPUTS_AT_ONCE: Final = 256
LINES_AT_ONCE: Final = 1024
BYTES_AT_ONCE: Final = 1024**2
"""As many lines as have one of these are asked at once: the texts of so many are in memory."""
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One line that says something. ``number`` counts from 1, empty lines too; ``end`` is where the next one
    begins. ``content`` is None of a line that is too long."""

    number: int
    end: int
    content: bytes | None


@dataclass(frozen=True, slots=True)
class BatchInput:
    """What a line asks: inputs, or why it asks nothing. ``name`` is what its sender calls it, ``how``
    says how the answer is wanted."""

    number: int
    name: str | None = None
    inputs: tuple[InferInput, ...] = ()
    refusal: HmiError | None = None
    how: object = None


@dataclass(slots=True)
class Block:
    """Lines that follow one another, and where they end."""

    lines: list[BatchInput] = field(default_factory=list)
    end: int = 0
    last: int = 0

    @property
    def inputs(self) -> tuple[InferInput, ...]:
        """Those of all its lines."""
        return tuple(one for line in self.lines for one in line.inputs)


def lines_of(stream: IO[bytes], *, after: int = 0) -> Iterator[Line]:
    """From where the stream stands on, ``after`` so many lines, to its end. No more than one line is in
    memory, of one that is too long a part."""
    number, end = after, stream.tell()
    while raw := stream.readline(LONGEST_LINE_BYTES + 1):
        start, content = end, raw
        end += len(raw)
        while not raw.endswith(b"\n") and (raw := stream.readline(LONGEST_LINE_BYTES + 1)):
            end += len(raw)
        number += 1
        if start == 0:
            content = content.removeprefix(BYTE_ORDER_MARK)
        if content.strip():
            too_long = end - start > LONGEST_LINE_BYTES
            yield Line(number, end, None if too_long else content)


def blocks_of(lines: Iterator[Line], read: Callable[[Line], BatchInput]) -> Iterator[Block]:
    """The lines, so many at a time that they are worth a request, as ``read`` understands them. The same
    beginning gives the same blocks."""
    block, inputs, size = Block(), 0, 0
    for line in lines:
        asked = read(line)
        more = inputs + len(asked.inputs)
        length = len(line.content or b"")
        full = len(block.lines) >= LINES_AT_ONCE or more > INPUTS_AT_ONCE or size + length > BYTES_AT_ONCE
        if block.lines and full:
            yield block
            block, inputs, size = Block(), 0, 0
        block.lines.append(asked)
        block.end, block.last = line.end, line.number
        inputs, size = inputs + len(asked.inputs), size + length
    if block.lines:
        yield block

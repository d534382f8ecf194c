"""A file of fixed slots, mapped into memory: each holds one packed model, ready for use.

The first page says what the file is. Behind it lies a table with a header for each slot, then the slots. A
slot is emptied by clearing its header; of an empty one the content is written first, then the header. So a
process that is killed leaves a slot that is whole or empty, and a machine that loses power at worst one of a
wrong checksum.
"""

import errno
import logging
import mmap
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

log = logging.getLogger(__name__)

PAGE: int = mmap.PAGESIZE
SLOTS = 1 << 16
"""The most that a slab has: the table has room for so many headers, of which the file system stores what was
written."""
_HEADER = struct.Struct("<64sQQI40x")
_CHECKSUM = struct.Struct("<I")
_STRIDE = _HEADER.size + _CHECKSUM.size
_SLOTS_AT = PAGE + SLOTS * _STRIDE
_EMPTY = bytes(_STRIDE)
_LAST_GENERATION = 1 << 62


class DamagedSlotError(Exception):
    """The content of a slot is not what its header says."""


@dataclass(frozen=True)
class Header:
    """Which filling a slot holds: the model's digest, the number of the filling, and the length and checksum
    of the content."""

    digest: str
    generation: int
    length: int
    checksum: int

    @cached_property
    def packed(self) -> bytes:
        """As it stands in the table, with a checksum of its own."""
        body = _HEADER.pack(self.digest.encode(), self.generation, self.length, self.checksum)
        return body + _CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def unpack(cls, raw: bytes) -> "Header | None":
        """None for that of an empty slot, and for anything that is no packed header."""
        if raw == _EMPTY:
            return None
        body, (checksum,) = raw[: _HEADER.size], _CHECKSUM.unpack(raw[_HEADER.size :])
        if zlib.crc32(body) != checksum:
            return None
        digest, generation, length, content = _HEADER.unpack(body)
        if not digest.isascii() or generation >= _LAST_GENERATION:
            return None
        return cls(digest.rstrip(b"\0").decode("ascii"), generation, length, content)


class Slab:
    """Slots of one size. ``spare`` are those that are empty and have their place on the disk, ``vacant``
    those that take none. One process writes to the file, and one thread at a time to a slot."""

    def __init__(self, file: int, kind: str, slot_bytes: int, slots: int) -> None:
        """Take over an open file, which is started anew unless it is a slab of this kind and size.

        Raises OSError, also where the file system does not take back parts of a file.
        """
        self.slot_bytes, self.slots = slot_bytes, min(slots, SLOTS)
        self._file = file
        size = _SLOTS_AT + self.slots * slot_bytes
        self._begin(f"HMI slab 1, {kind}, slots of {slot_bytes}\n".encode(), size)
        # What is read behind the end of a mapped file kills the process.
        os.ftruncate(file, size)
        self._map = mmap.mmap(file, size)
        self.found = {number: header for number, header in self._headers() if header.length <= slot_bytes}
        used = max(self.found, default=-1) + 1
        self.spare = [number for number in range(used) if number not in self.found]
        self.vacant = list(range(self.slots - 1, used - 1, -1))
        for number in self.vacant[:1]:
            self.give_back(number)

    def fill(self, number: int, digest: str, generation: int, content: Sequence[memoryview]) -> Header:
        """Write an empty slot. Raises OSError, and leaves it empty, when the disk does not take it."""
        checksum = 0
        for part in content:
            checksum = zlib.crc32(part, checksum)
        header = Header(digest, generation, sum(part.nbytes for part in content), checksum)
        at = self._start(number)
        for part in content:
            self._write(part, at)
            at += part.nbytes
        self._write(header.packed, self._header_at(number))
        return header

    def memory(self, number: int, header: Header) -> memoryview:
        """Where the content lies of a slot that was filled so, mapped."""
        start = self._start(number)
        return memoryview(self._map)[start : start + header.length]

    def verify(self, number: int, header: Header) -> None:
        """Read the content once. Raises DamagedSlotError unless it is what the header says."""
        if zlib.crc32(self.memory(number, header)) != header.checksum:
            raise DamagedSlotError(f"the content of slot {number} has another checksum than its header says")

    def holds(self, number: int, header: Header) -> bool:
        """Whether the slot is filled so."""
        return self._header(number) == header.packed

    def empty(self, number: int) -> None:
        """Clear the header of a slot. Raises OSError."""
        if self._header(number) != _EMPTY:
            self._write(_EMPTY, self._header_at(number))

    def give_back(self, number: int) -> None:
        """Let the disk have the place of an empty slot. Raises OSError where the file system cannot."""
        self._map.madvise(mmap.MADV_REMOVE, self._start(number), self.slot_bytes)

    def close(self) -> None:
        """Let go of the file; what is still in use of the mapped memory stays."""
        os.close(self._file)

    def _begin(self, head: bytes, size: int) -> None:
        """See that the file is what it should be."""
        if os.pread(self._file, PAGE, 0).rstrip(b"\0") == head:
            return
        if os.fstat(self._file).st_size:
            log.warning(
                "a file is not the slab that it should be (%s), and is started anew", head.decode().strip()
            )
        os.ftruncate(self._file, 0)
        os.ftruncate(self._file, size)
        self._write(head, 0)

    def _headers(self) -> Iterator[tuple[int, Header]]:
        """The valid ones, with the number of their slot."""
        table = os.pread(self._file, self.slots * _STRIDE, PAGE)
        for number in range(self.slots):
            raw = table[number * _STRIDE : (number + 1) * _STRIDE]
            if (header := Header.unpack(raw)) is not None:
                yield number, header

    def _header(self, number: int) -> bytes:
        at = self._header_at(number)
        return self._map[at : at + _STRIDE]

    def _write(self, part: bytes | memoryview, at: int) -> None:
        # Not through the map, where a full disk is no error but kills the process.
        if os.pwrite(self._file, part, at) != len(part):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _start(self, number: int) -> int:
        return _SLOTS_AT + number * self.slot_bytes

    def _header_at(self, number: int) -> int:
        return PAGE + number * _STRIDE

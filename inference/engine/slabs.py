"""Where a worker keeps models on the host: slabs, one for each size of slots, within one budget of bytes."""

import fcntl
import itertools
import logging
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from inference.engine.slab import PAGE, Header, Slab
from inference.engine.slab_room import SlabRoom

log = logging.getLogger(__name__)

NAME = re.compile(r"(\d{1,15})\.slab")
LEFT_FREE = 20
"""The twentieth part of the disk is left to others, for whom a full disk is worse."""
REFUSED_FOR_S = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """A slot of a slab."""

    slab: Slab
    number: int

    def fill(self, digest: str, generation: int, content: Sequence[memoryview]) -> "Filled":
        """Write it; raises OSError, with the slot empty, when the disk does not take it."""
        return Filled(self, self.slab.fill(self.number, digest, generation, content))


@dataclass(frozen=True, slots=True)
class Filled:
    """One filling of a place."""

    place: Place
    header: Header

    def memory(self) -> memoryview:
        """Where the content lies, mapped."""
        return self.place.slab.memory(self.place.number, self.header)

    def verify(self) -> None:
        """Read the content once. Raises DamagedSlotError unless it is what the header says."""
        self.place.slab.verify(self.place.number, self.header)

    def intact(self) -> bool:
        """Whether the place was not emptied or filled anew since."""
        return self.place.slab.holds(self.place.number, self.header)


class Slabs:
    """Slots for models of any size, in files of ``folder``, or in memory without one.

    models of one root and one kind of PET differ by little, so one slab holds them; a slab takes of the disk
    what was filled. Not for several threads at once.
    """

    def __init__(
        self, folder: Path | None, dtype: torch.dtype, *, budget_bytes: int, lock: int | None = None
    ) -> None:
        """Open what lies in ``folder``, which no other process may use; with ``lock``, the open file that
        keeps them out (see `lent`). Raises OSError."""
        self.dtype = dtype
        self.used_bytes = 0
        self._folder = folder
        self._budget = budget_bytes
        self._slabs: dict[int, Slab] = {}
        self._lock = lock
        self._refused_bytes, self._refused_until = 0, 0.0
        for path in sorted(folder.iterdir()) if folder else ():
            if (name := NAME.fullmatch(path.name)) and int(name[1]) == slot_bytes(int(name[1])):
                self._open(int(name[1]))

    @classmethod
    def lent(cls, folder: Path, dtype: torch.dtype, *, budget_bytes: int) -> "Slabs":
        """In the first part of ``folder`` that no other process uses. Raises OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in itertools.count():
            own = folder / f"{str(dtype).removeprefix('torch.')}-{number}"
            own.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(own / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return cls(own, dtype, budget_bytes=budget_bytes, lock=lock)
            except OSError as error:
                os.close(lock)
                if not isinstance(error, BlockingIOError):
                    raise
        raise AssertionError

    def found(self) -> list[Filled]:
        """What was filled when the slabs were opened, the oldest filling first."""
        found = [
            Filled(Place(slab, number), header)
            for slab in self._slabs.values()
            for number, header in slab.found.items()
        ]
        return sorted(found, key=lambda filled: filled.header.generation)

    def limit(self) -> int:
        """How many bytes all slots may take at present."""
        if time.monotonic() < self._refused_until:
            return min(self._budget, self._refused_bytes)
        if self._folder is None:
            return self._budget
        try:
            disk = os.statvfs(self._folder)
        except OSError:  # somebody removed it; what is mapped stays
            return self.used_bytes
        spare = (disk.f_bavail - disk.f_blocks // LEFT_FREE) * disk.f_frsize
        return min(self._budget, self.used_bytes + max(0, spare))

    @property
    def held_bytes(self) -> int:
        """What the slots take that hold something."""
        return self.used_bytes - sum(slab.slot_bytes * len(slab.spare) for slab in self._slabs.values())

    def slab_for(self, size: int) -> Slab | None:
        """The slab for contents of so many bytes; None where there can be no slot for them."""
        wanted = slot_bytes(size)
        if wanted > self.limit():
            return None
        try:
            return self._slabs.get(wanted) or self._open(wanted)
        except OSError as error:
            self._refuse(error)
            return None

    def take(self, slab: Slab) -> Place | None:
        """An empty slot; None while others must be emptied first, which `put_back` is told."""
        while not slab.spare or self.used_bytes > self.limit():
            if slab.vacant and self.used_bytes + slab.slot_bytes <= self.limit():
                slab.spare.append(slab.vacant.pop())
                self.used_bytes += slab.slot_bytes
            elif not any(self._give_back(other) for other in self._slabs.values()):
                return None
        return Place(slab, slab.spare.pop())

    def put_back(self, place: Place) -> None:
        """Empty a slot that was taken or found."""
        try:
            place.slab.empty(place.number)
        except OSError as error:  # it is not used again, and nobody asks for what it holds
            log.error("slot %d of %d bytes cannot be emptied: %s", place.number, place.slab.slot_bytes, error)
            self.used_bytes -= place.slab.slot_bytes
        else:
            place.slab.spare.append(place.number)

    def refused(self, place: Place, error: OSError) -> None:
        """A slot that was taken could not be filled: for a while there are no more than there are now."""
        self.put_back(place)
        self._give_back(place.slab)
        self._refuse(error)

    def clear(self) -> None:
        """Empty all slots."""
        for slab in self._slabs.values():
            taken = set(range(slab.slots)).difference(slab.spare, slab.vacant)
            for number in taken:
                self.put_back(Place(slab, number))

    def close(self) -> None:
        """Let another process use the files."""
        for slab in self._slabs.values():
            slab.close()
        if self._lock is not None:
            os.close(self._lock)

    def _open(self, wanted: int) -> Slab:
        kind = str(self.dtype).removeprefix("torch.")
        if self._folder is None:
            file = os.memfd_create(f"{wanted}.slab")
        else:
            path = self._folder / f"{wanted}.slab"
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            slab = Slab(file, kind, wanted, self._budget // wanted)
        except BaseException:
            os.close(file)
            raise
        self.used_bytes += wanted * (len(slab.found) + len(slab.spare))
        self._slabs[wanted] = slab
        return slab

    def _give_back(self, slab: Slab) -> bool:
        """Let others have the place of a spare slot; False where there is none."""
        if not slab.spare:
            return False
        number = slab.spare.pop()
        try:
            slab.give_back(number)
        except OSError as error:
            log.error("the file system does not take the place of slot %d back: %s", number, error)
        else:
            self.used_bytes -= slab.slot_bytes
            slab.vacant.append(number)
        return True

    def _refuse(self, error: OSError) -> None:
        log.warning("the slab stays at %d MiB for a while: %s", self.used_bytes >> 20, error)
        self._refused_bytes, self._refused_until = self.used_bytes, time.monotonic() + REFUSED_FOR_S


def open_slabs(dtype: torch.dtype, room: SlabRoom | None, *, memory_bytes: int) -> Slabs:
    """To keep models of that number format in; of memory without ``room``, and where the disk has none."""
    if room is not None:
        try:
            slabs = Slabs.lent(room.folder, dtype, budget_bytes=room.bytes)
        except OSError as error:
            log.error("Models are kept in memory: %s cannot be used: %s", room.folder, error)
        else:
            if slabs.limit() >= min(memory_bytes, room.bytes):
                return slabs
            log.error("Models are kept in memory: the disk of %s is full", room.folder)
            slabs.close()
    return Slabs(None, dtype, budget_bytes=memory_bytes)


def slot_bytes(size: int) -> int:
    """The size of the slots for contents of so many bytes: larger by an eighth at most, or by a page."""
    step = max(PAGE, 1 << max(0, size.bit_length() - 4))
    return max(1, -(-size // step)) * step

"""Which models are on the host: a bounded set of slots that are filled, used and filled again."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass
from itertools import islice
from threading import Lock

from inference.engine.packed import PackedHplm
from inference.engine.rows import ModelIdentity
from inference.engine.slab import DamagedSlotError
from inference.engine.slabs import Filled, Place, Slabs

log = logging.getLogger(__name__)

CHECKED = 1000
"""Of so many slots, those used last, it is checked when idle that they are as they should be."""


class SlotMismatchError(Exception):
    """A slot does not hold the model that it was leased for. Never expected; the rows concerned must fail."""


class IntegrityError(Exception):
    """The books of the cache do not add up."""


@dataclass(slots=True, eq=False)
class Slot:
    """One filling of a place in a slab. What found no place lies in memory of its own while it is leased.
    ``hplm`` is None before the first use in this process."""

    digest: str
    generation: int
    hplm: PackedHplm | None = None
    filled: Filled | None = None
    pins: int = 0

    @property
    def size(self) -> int:
        """Bytes that it takes of the slabs."""
        return 0 if self.filled is None else self.filled.place.slab.slot_bytes

    def intact(self) -> bool:
        """Whether its place is still filled with it."""
        return self.filled is None or self.filled.intact()


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to use one filling of a slot until it is released. ``brought_s`` are the seconds that
    filling it took, 0.0 where it was there."""

    slot: Slot
    digest: str
    generation: int
    brought_s: float = 0.0

    def hplm(self) -> PackedHplm:
        """What the slot holds, or SlotMismatchError when that is not what was leased."""
        slot, held = self.slot, self.slot.hplm
        if (slot.digest, slot.generation) != (self.digest, self.generation) or held is None:
            raise SlotMismatchError(f"a slot leased for {self.digest[:12]} is of {slot.digest[:12]}")
        if not slot.intact():
            raise SlotMismatchError(f"the place of the slot of {slot.digest[:12]} was filled anew")
        return held

    def identity(self, asked: ModelIdentity) -> ModelIdentity:
        """Whose answer the slot gives to a row that asked for ``asked``; SlotMismatchError if another's."""
        self.hplm()
        used = ModelIdentity(asked.tenant, asked.hplm, asked.version, self.slot.digest)
        if used != asked:
            raise SlotMismatchError(f"{asked} asked for {asked.digest[:12]}, the slot is {used.digest[:12]}")
        return used


class HplmCache:
    """Least recently used first out of the slabs, pinned ones never; versions of equal content share a slot.

    What is in the slabs when they are opened is there at once. What a running step has leased stays; where
    that and what is pinned leaves no place for more, the step has the rest in memory of its own. For any
    threads.
    """

    def __init__(self, load: Callable[[ModelIdentity], PackedHplm], slabs: Slabs) -> None:
        self._load = load
        self._slabs = slabs
        self._bringing = Lock()  # held while a slot is filled, which takes milliseconds
        self._lock = Lock()  # held while the books are changed
        self._slots: OrderedDict[str, Slot] = OrderedDict()
        self._pinned: frozenset[str] = frozenset()
        self._generation = 0
        self.used_bytes = 0
        self.loads = 0
        for filled in slabs.found():
            self._generation = filled.header.generation
            self._enter(Slot(filled.header.digest, self._generation, filled=filled))

    def __len__(self) -> int:
        return len(self._slots)

    def holds(self, digest: str) -> bool:
        """Whether it has a slot now."""
        return digest in self._slots

    @property
    def is_roomy(self) -> bool:
        """Whether an eighth of the room or more holds nothing."""
        with self._lock:
            limit = self._slabs.limit()
            return limit - self._slabs.held_bytes >= limit / 8 > 0

    def pin(self, digests: Collection[str]) -> None:
        """Let these stay once they are there, and no others."""
        self._pinned = frozenset(digests)

    def acquire(self, model: ModelIdentity) -> Lease:
        """Lease the slot of ``model``, filling one first where needed; whatever loading raises is raised."""
        with self._bringing:
            if (slot := self._there(model.digest)) is not None:
                return Lease(slot, model.digest, slot.generation)
            begun = time.perf_counter()
            slot = self._brought(model)
            return Lease(slot, model.digest, slot.generation, time.perf_counter() - begun)

    def release(self, lease: Lease) -> None:
        """Give the lease back."""
        with self._lock:
            slot = lease.slot
            slot.pins -= 1
            if slot.filled is None and not slot.pins and self._slots.get(slot.digest) is slot:
                self._leave(slot)

    def keep(self, digests: Container[str]) -> None:
        """Give back the slots of all others: at once, or, of those that are leased, before any other."""
        with self._lock:
            for slot in [slot for slot in self._slots.values() if slot.digest not in digests]:
                if slot.pins:
                    self._slots.move_to_end(slot.digest, last=False)
                else:
                    self._leave(slot)

    def clear(self) -> None:
        """Forget everything, for instance after an IntegrityError."""
        with self._lock:
            for slot in self._slots.values():
                slot.hplm = None
            self._slots.clear()
            self._slabs.clear()
            self.used_bytes = 0

    def close(self) -> None:
        """Let another process use the slabs. Nothing may be leased."""
        self._slabs.close()

    def check_integrity(self) -> None:
        """Raise IntegrityError unless, with no step running, the slots are where and what they should be."""
        with self._lock:
            for digest, slot in islice(reversed(self._slots.items()), CHECKED):
                if slot.digest != digest or not slot.intact():
                    raise IntegrityError(f"the slot of {digest[:12]} is not its own")
                if slot.pins:
                    raise IntegrityError(f"{slot.pins} leases of {digest[:12]} were not released")
            if self.used_bytes != self._slabs.held_bytes:
                raise IntegrityError("the slots do not add up to the bytes in use")

    def _there(self, digest: str) -> Slot | None:
        """The slot, leased; None when there is none, or it is not whole. The first use reads all of it."""
        with self._lock:
            if (slot := self._slots.get(digest)) is None:
                return None
            slot.pins += 1
            self._slots.move_to_end(digest)
        try:
            if slot.hplm is None and slot.filled is not None:
                slot.filled.verify()
                slot.hplm = PackedHplm.mapped(slot.filled.memory(), self._slabs.dtype)
        except DamagedSlotError as error:
            log.warning("%s is read from its files again: %s", digest[:12], error)
            with self._lock:
                self._leave(slot)
            return None
        return slot

    def _brought(self, model: ModelIdentity) -> Slot:
        """A new slot, leased, with what loading gave."""
        hplm = self._load(model)
        self.loads += 1
        self._generation += 1
        slot = Slot(model.digest, self._generation, hplm, pins=1)
        slot.filled = self._stored(slot, hplm.content())
        if slot.filled is not None:
            slot.hplm = PackedHplm.mapped(slot.filled.memory(), self._slabs.dtype)
        with self._lock:
            self._enter(slot)
        return slot

    def _stored(self, slot: Slot, content: list[memoryview]) -> Filled | None:
        """A place filled with it; None when there is none to be had."""
        place = self._place(sum(part.nbytes for part in content))
        if place is None:
            return None
        try:
            return place.fill(slot.digest, slot.generation, content)
        except OSError as error:
            with self._lock:
                self._slabs.refused(place, error)
            return None

    def _place(self, size: int) -> Place | None:
        """An empty place, for which others may have to go; None when all are leased."""
        with self._lock:
            slab = self._slabs.slab_for(size)
            if slab is None:
                return None
            while (place := self._slabs.take(slab)) is None:
                if (oldest := self._oldest()) is None:
                    return None
                self._leave(oldest)
            return place

    def _oldest(self) -> Slot | None:
        """Which slot is given up next; None when all are leased or pinned."""
        unused = (slot for slot in self._slots.values() if slot.filled and not slot.pins)
        return next((slot for slot in unused if slot.digest not in self._pinned), None)

    def _enter(self, slot: Slot) -> None:
        """Put it into the books, as the one used last."""
        if (twin := self._slots.get(slot.digest)) is not None:
            self._leave(twin)
        self._slots[slot.digest] = slot
        self.used_bytes += slot.size

    def _leave(self, slot: Slot) -> None:
        """Take it out of the books, and empty its place."""
        del self._slots[slot.digest]
        slot.hplm = None
        self.used_bytes -= slot.size
        if slot.filled is not None:
            self._slabs.put_back(slot.filled.place)

"""Which hPLMs are on the device: a bounded set of slots that are filled, used and filled again."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Generic, Protocol, TypeVar

from inference.engine.rows import ModelIdentity


class Sized(Protocol):
    """What takes memory."""

    @property
    def bytes(self) -> int:
        """How much."""


Held = TypeVar("Held", bound=Sized)


class SlotMismatchError(Exception):
    """A slot does not hold the hPLM that it was leased for. Never expected; the rows concerned must fail."""


class IntegrityError(Exception):
    """The books of the cache do not add up."""


@dataclass(slots=True, eq=False)
class Slot(Generic[Held]):
    """Holds one hPLM at a time; ``generation`` counts the fillings."""

    digest: str = ""
    hplm: Held | None = None
    size: int = 0
    generation: int = 0
    pins: int = 0


@dataclass(frozen=True, slots=True)
class Lease(Generic[Held]):
    """The right to use one filling of a slot until it is released."""

    slot: Slot[Held]
    digest: str
    generation: int

    def hplm(self) -> Held:
        """What the slot holds, or SlotMismatchError when that is not what was leased."""
        held = self.slot.hplm
        if held is None or self.slot.digest != self.digest or self.slot.generation != self.generation:
            raise SlotMismatchError(f"a slot leased for {self.digest[:12]} holds {self.slot.digest[:12]}")
        return held

    def identity(self, asked: ModelIdentity) -> ModelIdentity:
        """Whose answer the slot gives to a row that asked for ``asked``; SlotMismatchError if another's."""
        self.hplm()
        used = ModelIdentity(asked.tenant, asked.hplm, asked.version, self.slot.digest)
        if used != asked:
            raise SlotMismatchError(f"{asked} asked for {asked.digest[:12]}, the slot is {used.digest[:12]}")
        return used


class HplmCache(Generic[Held]):
    """Least recently used first out, bounded in bytes; versions of equal content share a slot.

    What a running step has leased stays, so one step may pass the budget by what it needs at once; the
    excess goes when the step releases it. One thread may acquire while another releases.
    """

    def __init__(self, load: Callable[[ModelIdentity], Held], *, budget_bytes: int) -> None:
        self._load = load
        self._budget = budget_bytes
        self._lock = Lock()
        self._slots: OrderedDict[str, Slot[Held]] = OrderedDict()
        self._free: list[Slot[Held]] = []
        self.used_bytes = 0
        self.loads = 0

    def __len__(self) -> int:
        return len(self._slots)

    def acquire(self, model: ModelIdentity) -> Lease[Held]:
        """Lease the slot of ``model``, filling one first where needed; whatever loading raises is raised."""
        with self._lock:
            resident = model.digest in self._slots
        # Reading takes milliseconds, in which others may release.
        loaded = None if resident else self._load(model)
        with self._lock:
            slot = self._slots.get(model.digest)
            if slot is None:
                slot = self._fill(model.digest, loaded or self._load(model))
            self._slots.move_to_end(model.digest)
            slot.pins += 1
            self._shrink()
            return Lease(slot, model.digest, slot.generation)

    def release(self, lease: Lease[Held]) -> None:
        """Give the lease back."""
        with self._lock:
            lease.slot.pins -= 1
            self._shrink()

    def clear(self) -> None:
        """Forget everything, for instance after an IntegrityError."""
        with self._lock:
            self._slots.clear()
            self._free.clear()
            self.used_bytes = 0

    def check_integrity(self) -> None:
        """Raise IntegrityError unless, with no step running, every slot is where and what it should be."""
        with self._lock:
            self._check()

    def _check(self) -> None:
        for digest, slot in self._slots.items():
            if slot.digest != digest or slot.hplm is None or slot.size != slot.hplm.bytes:
                raise IntegrityError(f"the slot of {digest[:12]} holds {slot.digest[:12]}")
            if slot.pins:
                raise IntegrityError(f"{slot.pins} leases of {digest[:12]} were not released")
        if any(slot.hplm is not None or slot.pins for slot in self._free):
            raise IntegrityError("a free slot is in use")
        if sum(slot.size for slot in self._slots.values()) != self.used_bytes:
            raise IntegrityError("the slots do not add up to the bytes in use")
        if self.used_bytes > self._budget:
            raise IntegrityError(f"{self.used_bytes} bytes pass the budget of {self._budget}")

    def _fill(self, digest: str, hplm: Held) -> Slot[Held]:
        self.loads += 1
        slot = self._free.pop() if self._free else Slot()
        slot.digest, slot.hplm, slot.size = digest, hplm, hplm.bytes
        slot.generation += 1
        self._slots[digest] = slot
        self.used_bytes += slot.size
        return slot

    def _shrink(self) -> None:
        """Empty the slots that were used least recently; looks at no more of them than it must."""
        excess = self.used_bytes - self._budget
        going: list[str] = []
        for digest, slot in self._slots.items():
            if excess <= 0:
                break
            if not slot.pins:
                going.append(digest)
                excess -= slot.size
        for digest in going:
            slot = self._slots.pop(digest)
            self.used_bytes -= slot.size
            slot.digest, slot.hplm, slot.size = "", None, 0
            self._free.append(slot)

"""The PET pool: models ready to compute, within a budget of memory (paper, section 6.2)."""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterator
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Generic, Protocol, TypeVar

from inference.engine.device_pets import DevicePets
from inference.engine.rows import ModelIdentity

CHECKED = 1000
"""The integrity check looks at so many slots a call, those used last first."""


class SlotMismatchError(Exception):
    """A slot does not hold the model that it was leased for. Never expected; the rows concerned must fail."""


class IntegrityError(Exception):
    """The pool's slots do not add up."""


class Loaded(Protocol):
    """A model in memory."""

    @property
    def bytes(self) -> int:
        """Its size."""


LoadedT = TypeVar("LoadedT", bound=Loaded)


@dataclass(slots=True, eq=False)
class Slot(Generic[LoadedT]):
    """One model that was loaded, the `generation`-th load of the pool. `model` is None once it was
    evicted. is_retired: it is evicted when its last lease is released."""

    digest: str
    generation: int
    model: LoadedT | None
    leases: int = 0
    size: int = 0
    is_retired: bool = False


@dataclass(frozen=True, slots=True)
class Lease(Generic[LoadedT]):
    """The right to use a slot until it is released. loading_s: seconds that loading took, 0.0 for a model
    that was in the pool."""

    slot: Slot[LoadedT]
    digest: str
    generation: int
    loading_s: float = 0.0

    def model(self) -> LoadedT:
        """The leased model. Raises SlotMismatchError if the slot holds another one, or none."""
        slot, held = self.slot, self.slot.model
        if (slot.digest, slot.generation) != (self.digest, self.generation) or held is None:
            raise SlotMismatchError(f"a slot leased for {self.digest[:12]} is of {slot.digest[:12]}")
        return held

    def identity(self, asked: ModelIdentity) -> ModelIdentity:
        """The model whose answer the slot gives to a row of `asked`. Raises SlotMismatchError if it is
        another one."""
        self.model()
        used = ModelIdentity(asked.tenant, asked.hplm, asked.version, self.slot.digest)
        if used != asked:
            raise SlotMismatchError(f"{asked} asked for {asked.digest[:12]}, the slot is {used.digest[:12]}")
        return used


class PetPool(Generic[LoadedT]):
    """Loads models on demand and keeps those used last. Versions of equal content share a slot.

    A leased slot is never evicted, nor is a pinned one for the sake of another model. If leased and pinned
    ones leave no room, a batch still gets its models: the pool exceeds its budget until they are released.
    Models lie on the host; an accelerator also has the PETs of those used last, and loses them with the
    model. Thread-safe.
    """

    def __init__(
        self,
        load: Callable[[ModelIdentity], LoadedT],
        budget_bytes: int,
        device_pets: DevicePets | None = None,
    ) -> None:
        self._load = load
        self._device_pets = device_pets
        self.row_on_device = None if device_pets is None else device_pets.row
        """See `SegmentPets`."""
        self.head_on_device = None if device_pets is None else device_pets.head
        self.budget_bytes = budget_bytes
        self._loading = Lock()  # held while a model is loaded, which takes milliseconds
        self._lock = Lock()  # held while the slots change
        self._slots: OrderedDict[str, Slot[LoadedT]] = OrderedDict()  # least recently used first
        self._pinned: frozenset[str] = frozenset()
        self._generation = 0
        # None: a slot was taken, added or evicted; start again at the slot used last.
        self._check_cursor: Iterator[tuple[str, Slot[LoadedT]]] | None = None
        self._checked_bytes = 0
        self.used_bytes = 0
        self.loads = 0

    def __len__(self) -> int:
        return len(self._slots)

    def holds(self, digest: str) -> bool:
        """Whether the model is in memory."""
        return digest in self._slots

    @property
    def is_roomy(self) -> bool:
        """Whether at least an eighth of the budget is unused."""
        return self.budget_bytes - self.used_bytes >= self.budget_bytes / 8 > 0

    def pin(self, digests: Collection[str]) -> None:
        """Do not evict these models, once they are loaded, for others. Replaces the previous set."""
        self._pinned = frozenset(digests)

    def acquire(self, model: ModelIdentity) -> Lease[LoadedT]:
        """Lease the slot of `model`, which is loaded first if needed. Raises what loading raises."""
        if (lease := self.acquire_held(model.digest)) is None:
            with self._loading:
                lease = self.acquire_held(model.digest)  # loaded by another thread meanwhile?
                if lease is None:
                    return self._loaded(model)
        return lease

    def acquire_held(self, digest: str) -> Lease[LoadedT] | None:
        """Lease the slot of a model that is in memory; None if it is not."""
        with self._lock:
            slot = self._slots.get(digest)
            if slot is None:
                return None
            slot.leases += 1
            self._slots.move_to_end(digest)
            self._check_cursor = None
            return Lease(slot, slot.digest, slot.generation)

    def release(self, lease: Lease[LoadedT]) -> None:
        """Give the lease back."""
        with self._lock:
            slot = lease.slot
            slot.leases -= 1
            self._make_room()
            is_held = self._slots.get(slot.digest) is slot
            goes = slot.is_retired or self._pinned_bytes() > self.budget_bytes
            if is_held and not slot.leases and goes:
                self._evict(slot)

    def keep(self, digests: Container[str]) -> None:
        """Evict all other models: at once, or, if leased, when they are released."""
        with self._lock:
            for slot in [*self._slots.values()]:
                slot.is_retired = slot.digest not in digests
                if slot.is_retired and not slot.leases:
                    self._evict(slot)

    def resize(self, budget_bytes: int) -> None:
        """Change the budget, and evict at once what is beyond it and not in use."""
        with self._lock:
            self.budget_bytes = budget_bytes
            self._make_room()

    def clear(self) -> None:
        """Evict everything, also what is leased, for instance after an IntegrityError."""
        with self._lock:
            for slot in self._slots.values():
                slot.model = None
            self._slots.clear()
            self._check_cursor = None
            self.used_bytes = 0
            if self._device_pets is not None:
                self._device_pets.clear()

    def check_integrity(self) -> None:
        """Raise IntegrityError unless, with no batch running, the slots are what they should be. A call looks
        at CHECKED of them; the next one goes on there, or starts again if the slots have changed."""
        with self._lock:
            if self._check_cursor is None:
                self._check_cursor, self._checked_bytes = reversed(self._slots.items()), 0
            slots = list(islice(self._check_cursor, CHECKED))
            for digest, slot in slots:
                if slot.digest != digest or slot.model is None:
                    raise IntegrityError(f"the slot of {digest[:12]} is not its own")
                if slot.leases:
                    raise IntegrityError(f"{slot.leases} leases of {digest[:12]} were not released")
                self._checked_bytes += slot.size
            if len(slots) == CHECKED:
                return
            self._check_cursor = None
            if self.used_bytes != self._checked_bytes:
                raise IntegrityError("the slots do not add up to the bytes in use")

    def _loaded(self, model: ModelIdentity) -> Lease[LoadedT]:
        started = time.perf_counter()
        loaded = self._load(model)
        with self._lock:
            self.loads += 1
            self._generation += 1
            slot = Slot(model.digest, self._generation, loaded, leases=1, size=loaded.bytes)
            self._slots[slot.digest] = slot
            self._check_cursor = None
            self.used_bytes += slot.size
            self._make_room()
        return Lease(slot, slot.digest, slot.generation, time.perf_counter() - started)

    def _make_room(self) -> None:
        """Evict models that are neither leased nor pinned until the budget is kept."""
        while self.used_bytes > self.budget_bytes and (slot := self._least_recently_used()) is not None:
            self._evict(slot)

    def _least_recently_used(self) -> Slot[LoadedT] | None:
        unused = (slot for slot in self._slots.values() if not slot.leases)
        return next((slot for slot in unused if slot.digest not in self._pinned), None)

    def _pinned_bytes(self) -> int:
        if self.used_bytes <= self.budget_bytes:
            return 0
        return sum(slot.size for slot in self._slots.values() if slot.digest in self._pinned)

    def _evict(self, slot: Slot[LoadedT]) -> None:
        del self._slots[slot.digest]
        self._check_cursor = None
        slot.model = None
        self.used_bytes -= slot.size
        if self._device_pets is not None:
            self._device_pets.forget(slot.digest)

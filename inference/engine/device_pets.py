"""PETs on an accelerator: those used last stay there, so that a batch copies only the others."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock

import torch
from torch import Tensor

from inference.hplm.heads import Head
from inference.hplm.pets.packed import PackedPet


@dataclass(slots=True)
class _Copies:
    """The rows [width] of one PET that were copied, by layer. size: bytes of all layers."""

    rows: list[Tensor | None]
    size: int
    head: Head | None = None


class DevicePets:
    """Copies of the rows of PETs on one device by the key of the PET, which is the digest of its model. The
    least recently used are evicted beyond `budget_bytes`.

    A batch that holds a copy keeps it alive after its eviction. Thread-safe.
    """

    def __init__(self, copy: Callable[[Tensor], Tensor], budget_bytes: int) -> None:
        """copy: returns a row [width] on the device, see `copy_pinned`."""
        self._copy = copy
        self._lock = Lock()
        self._copies: OrderedDict[Hashable, _Copies] = OrderedDict()  # least recently used first
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self.copies = 0

    def row(self, pet: PackedPet, layer: int) -> Tensor:
        """The row [width] of that layer on the device, copied on the current stream if it is not there."""
        with self._lock:
            copies = self._of(pet)
            row = copies.rows[layer]
            if row is None:
                self.copies += 1
                row = copies.rows[layer] = self._copy(pet.rows[layer])
            return row

    def head(self, pet: PackedPet, head: Head) -> Head:
        """The head of that PET's model on the device, copied on the current stream if it is not there."""
        with self._lock:
            copies = self._of(pet)
            if copies.head is None:
                copies.head = head.moved(self._copy)
                size = sum(tensor.nbytes for tensor in head.tensors().values())
                copies.size += size
                self.used_bytes += size
                self._make_room(least=1)
            return copies.head

    def forget(self, key: Hashable) -> None:
        """Drop the copies of a PET, if there are any."""
        with self._lock:
            if copies := self._copies.pop(key, None):
                self.used_bytes -= copies.size

    def clear(self) -> None:
        """Drop all copies."""
        with self._lock:
            self._copies.clear()
            self.used_bytes = 0

    def resize(self, budget_bytes: int) -> None:
        """Change the budget, and evict at once what is beyond it."""
        with self._lock:
            self.budget_bytes = budget_bytes
            self._make_room(least=0)

    def _of(self, pet: PackedPet) -> _Copies:
        copies = self._copies.get(pet.key)
        if copies is None:
            copies = self._copies[pet.key] = _Copies([None] * len(pet.rows), pet.rows.nbytes)
            self.used_bytes += copies.size
            self._make_room(least=1)  # the one asked for last stays, whatever its size
        else:
            self._copies.move_to_end(pet.key)
        return copies

    def _make_room(self, least: int) -> None:
        while self.used_bytes > self.budget_bytes and len(self._copies) > least:
            _, copies = self._copies.popitem(last=False)
            self.used_bytes -= copies.size


def copy_pinned(device: torch.device) -> Callable[[Tensor], Tensor]:
    """Copies to an accelerator that run beside its computing, which only copies from pinned memory do.

    PyTorch lends that memory from a pool, and does not lend it again before the copy is done.
    """
    return lambda row: row.pin_memory().to(device, non_blocking=True)

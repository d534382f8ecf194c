"""PETs on an accelerator: those used last stay there, so that a batch copies only the others."""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

import torch
from torch import Tensor

from inference.hplm.pets import PackedPet


class DevicePets:
    """Copies of the rows of PETs on one device, the least recently used evicted beyond `budget_bytes`.

    A batch that holds a copy keeps it alive after its eviction. Thread-safe.
    """

    def __init__(self, copy: Callable[[Tensor], Tensor], budget_bytes: int) -> None:
        """copy: returns a row [width] on the device, see `copy_pinned`."""
        self._copy = copy
        self._lock = Lock()
        self._rows: OrderedDict[PackedPet, list[Tensor | None]] = OrderedDict()  # least recently used first
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self.copies = 0

    def row(self, pet: PackedPet, layer: int) -> Tensor:
        """The row [width] of that layer on the device, copied on the current stream if it is not there."""
        with self._lock:
            rows = self._rows.get(pet)
            if rows is None:
                rows = self._rows[pet] = [None] * len(pet.rows)
                self.used_bytes += pet.rows.nbytes
                self._make_room()
            else:
                self._rows.move_to_end(pet)
            row = rows[layer]
            if row is None:
                self.copies += 1
                row = rows[layer] = self._copy(pet.rows[layer])
            return row

    def _make_room(self) -> None:
        """The one asked for last stays, whatever its size."""
        while self.used_bytes > self.budget_bytes and len(self._rows) > 1:
            pet, _ = self._rows.popitem(last=False)
            self.used_bytes -= pet.rows.nbytes


def copy_pinned(device: torch.device) -> Callable[[Tensor], Tensor]:
    """Copies to an accelerator that run beside its computing, which only copies from pinned memory do.

    PyTorch lends that memory from a pool, and does not lend it again before the copy is done.
    """
    return lambda row: row.pin_memory().to(device, non_blocking=True)

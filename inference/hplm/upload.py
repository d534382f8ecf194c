"""Copies many small arrays of a step or a batch to the device at once."""

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ALIGNMENT: Final = 16
"""Bytes: each array begins at a multiple of it, so that its numbers can be read by any type's loads."""


class Upload:
    """Arrays that go to a device in one copy, from pinned memory, which the host does not wait for.

    Add all arrays before the first is read: reading one copies all that were added since the last copy. On a
    CPU there is no copy: the tensors share the arrays' memory.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._waiting: list[Uploaded] = []

    def add(self, array: NDArray[Any]) -> "Uploaded":
        """The array's future tensor. The array must not change until it is read."""
        added = Uploaded(self, np.ascontiguousarray(array))
        self._waiting.append(added)
        return added

    def send(self) -> None:
        """Copy what was added since the last copy."""
        waiting, self._waiting = self._waiting, []
        if self.device.type == "cpu":
            for added in waiting:
                added.arrive(torch.from_numpy(added.array))
            return
        begins = np.cumsum(
            [0, *(-(-added.array.nbytes // ALIGNMENT) * ALIGNMENT for added in waiting)]
        ).tolist()
        # The allocator of pinned memory gives it to nobody else before the copy has read it.
        host = torch.empty(begins[-1], dtype=torch.uint8, pin_memory=True)
        numbers = host.numpy()
        for begin, added in zip(begins, waiting, strict=False):
            numbers[begin : begin + added.array.nbytes] = added.array.reshape(-1).view(np.uint8)
        copied = host.to(self.device, non_blocking=True)
        for begin, added in zip(begins, waiting, strict=False):
            own, dtype = copied[begin : begin + added.array.nbytes], torch.from_numpy(added.array).dtype
            added.arrive(own.view(dtype).view(added.array.shape))


class Uploaded:
    """An array that was added to an upload: its shape and dtype are those of its tensor on the device."""

    def __init__(self, upload: Upload, array: NDArray[Any]) -> None:
        self.array = array
        self._upload = upload
        self._tensor: Tensor | None = None

    @property
    def tensor(self) -> Tensor:
        """The tensor on the device."""
        if self._tensor is None:
            self._upload.send()
        assert self._tensor is not None, "the upload has lost an array"
        return self._tensor

    def arrive(self, tensor: Tensor) -> None:
        """Called by the upload with the tensor on the device."""
        self._tensor = tensor

"""One hPLM as the engine keeps it: on the host, ready to be put beside others."""

from dataclasses import dataclass

import torch

from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm, Task
from inference.hplm.pet_layout import PackedPet
from inference.hplm.pets import Shape


@dataclass(frozen=True, slots=True, eq=False)
class PackedHplm:
    """What a batch needs of an hPLM. Its PET lies in the number format of the upper layers, pinned where
    there is an accelerator; its head in fp32. At rest it takes nothing of the device."""

    task: Task
    labels: tuple[str, ...]
    threshold: float
    pet: PackedPet
    head: Head

    @classmethod
    def of(cls, hplm: Hplm, dtype: torch.dtype, *, pinned: bool = False) -> "PackedHplm":
        """A copy of the hPLM."""
        pet = PackedPet.of(hplm.pet, dtype, pinned=pinned)
        return cls(hplm.task, hplm.labels, hplm.threshold, pet, hplm.head.to("cpu"))

    @property
    def shape(self) -> Shape:
        """Of the upper layers that it was made for."""
        return self.pet.layout.shape

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return self.pet.bytes + sum(value.nbytes for value in self.head.tensors().values())

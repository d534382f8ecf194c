"""One model as the engine keeps it: on the host, ready to compute."""

from dataclasses import dataclass

import torch

from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.pets import PackedPet, UpperShape


@dataclass(frozen=True, slots=True, eq=False)
class PackedHplm:
    """What a batch needs of a model: its PET in the number format of the upper layers, its head in fp32."""

    pet: PackedPet
    head: Head

    @classmethod
    def of(cls, hplm: Hplm, dtype: torch.dtype, digest: str | None = None) -> "PackedHplm":
        """The model, with a copy of its PET; see `PackedPet.of`."""
        return cls(PackedPet.of(hplm.pet, dtype, digest), hplm.head.to("cpu"))

    @property
    def shape(self) -> UpperShape:
        """Of the upper layers that it was made for."""
        return self.pet.layout.shape

    @property
    def bytes(self) -> int:
        """Of its tensors."""
        return self.pet.rows.nbytes + sum(value.nbytes for value in self.head.tensors().values())

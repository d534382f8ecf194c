"""Any number of models of several sizes, each of which can be told from all others."""

from functools import cache

import torch

from inference.engine.packed import PackedHplm
from inference.engine.residency import HplmCache
from inference.engine.rows import ModelIdentity
from inference.engine.slabs import Slabs, slot_bytes
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.pets import PetSpec, PetWeights, UpperShape

SHAPE = UpperShape(2, 32, 64)
KINDS = (PetSpec(lora=8, biases=True, norms=True), PetSpec(adapter=16), PetSpec())
"""Each needs slots of a size of its own, the first the largest."""


def identity(number: int) -> ModelIdentity:
    return ModelIdentity("acme", f"model{number}", 1, f"{number:064d}")


@cache
def packed(number: int, dtype: torch.dtype = torch.float32, shape: UpperShape = SHAPE) -> PackedHplm:
    """The model of that number: all its weights are one more than that."""
    spec = KINDS[number % len(KINDS)]
    initial = PetWeights.initial(spec, shape)
    weights = {name: torch.full_like(value, 1 + number) for name, value in initial.weights.items()}
    head = Head(torch.full((3, shape.hidden), 1.0 + number), torch.full((3,), 1.0 + number))
    labels = (f"is {number}", "b", "c")
    return PackedHplm.of(Hplm("classification", labels, PetWeights(spec, shape, weights), head), dtype)


def size(number: int) -> int:
    """Of the slot that it needs."""
    return slot_bytes(sum(part.nbytes for part in packed(number).content()))


def is_number(hplm: PackedHplm, number: int) -> bool:
    """Whether all of it is that of this number."""
    made = packed(number, hplm.pet.rows.dtype, hplm.shape)
    return (hplm.pet.layout, hplm.head.pooling) == (made.pet.layout, made.head.pooling) and all(
        torch.equal(have, wanted)
        for have, wanted in (
            (hplm.pet.rows, made.pet.rows),
            (hplm.head.weight, made.head.weight),
            (hplm.head.bias, made.head.bias),
        )
    )


class Shelf:
    """Loads models by number, and notes which."""

    def __init__(self, shape: UpperShape = SHAPE) -> None:
        self.taken: list[int] = []
        self._shape = shape

    def load(self, model: ModelIdentity) -> PackedHplm:
        number = int(model.digest)
        self.taken.append(number)
        return packed(number, shape=self._shape)

    def cache(self, slabs: Slabs) -> HplmCache:
        return HplmCache(self.load, slabs)


def use(cache: HplmCache, *numbers: int) -> None:
    """Lease these at once, look at them, and give them back."""
    leases = [cache.acquire(identity(number)) for number in numbers]
    for number, lease in zip(numbers, leases, strict=True):
        assert is_number(lease.hplm(), number)
        assert lease.identity(identity(number)) == identity(number)
    for lease in leases:
        cache.release(lease)

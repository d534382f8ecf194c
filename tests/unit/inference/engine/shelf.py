"""Any number of models of several sizes, each of which can be told from all others."""

from functools import cache

import torch

from inference.engine.adapters import PackedHplm
from inference.engine.device_pets import DevicePets
from inference.engine.pet_pool import PetPool
from inference.engine.rows import ModelIdentity
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights

SHAPE = UpperShape(2, 32, 64)
KINDS = (PetSpec(lora=8, biases=True, norms=True), PetSpec(adapter=16), PetSpec())
"""Each is of another size, the first the largest."""


def identity(number: int) -> ModelIdentity:
    return ModelIdentity("acme", f"model{number}", 1, f"{number:064d}")


def unpacked(number: int) -> Hplm:
    """The model of that number: all its weights are one more than that."""
    spec = KINDS[number % len(KINDS)]
    initial = PetWeights.initial(spec, SHAPE)
    weights = {name: torch.full_like(value, 1 + number) for name, value in initial.weights.items()}
    head = Head(torch.full((3, SHAPE.hidden), 1.0 + number), torch.full((3,), 1.0 + number))
    return Hplm("classification", (f"is {number}", "b", "c"), PetWeights(spec, SHAPE, weights), head)


@cache
def packed(number: int) -> PackedHplm:
    """As the engine keeps it, in fp32."""
    return load(number)


def load(number: int) -> PackedHplm:
    """The same, loaded anew."""
    return PackedHplm.of(unpacked(number), torch.float32, identity(number).digest)


def size(number: int) -> int:
    """Bytes of the model of that number."""
    return packed(number).bytes


def is_number(hplm: PackedHplm, number: int) -> bool:
    """Whether all of it is that of this number."""
    made = packed(number)
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

    def __init__(self) -> None:
        self.taken: list[int] = []

    def load(self, model: ModelIdentity) -> PackedHplm:
        number = int(model.digest)
        self.taken.append(number)
        return packed(number)

    def pool(self, budget_bytes: int, device_pets: DevicePets | None = None) -> PetPool[PackedHplm]:
        return PetPool(self.load, budget_bytes, device_pets)


def use(pool: PetPool[PackedHplm], *numbers: int) -> None:
    """Lease these at once, look at them, and give them back."""
    leases = [pool.acquire(identity(number)) for number in numbers]
    for number, lease in zip(numbers, leases, strict=True):
        assert is_number(lease.model(), number)
        assert lease.identity(identity(number)) == identity(number)
    for lease in leases:
        pool.release(lease)

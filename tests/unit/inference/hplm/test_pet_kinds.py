"""A further kind of PET is a class with the hooks that it needs."""

from collections.abc import Iterator, Mapping, Sequence

import pytest
import torch
from torch import Tensor, nn

from inference.hplm.pets.batch import SegmentPets, SharedPets
from inference.hplm.pets.kind import Change, PetKind, PetTensors
from inference.hplm.pets.kinds import KINDS
from inference.hplm.pets.packed import PackedPet
from inference.hplm.pets.segments import PetTokens
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights

SHAPE = UpperShape(layers=2, hidden=7, inner=9)


class Scale(PetKind):
    """A number for each layer, by which the product of `expand` grows."""

    name = "scale"

    def shapes(self, spec: PetSpec, shape: UpperShape) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield "scale", (shape.layers, 1)

    def change(
        self,
        pets: Sequence[PetTokens],
        modules: Mapping[str, nn.Linear],
        hidden: Tensor,
        results: Mapping[str, Tensor],
    ) -> None:
        for pet in pets if "expand" in results else ():
            product = pet.product(hidden, modules["expand"].weight)
            pet.tokens(results["expand"]).add_(product * pet.tensors["scale"])

    def learn(self, pet: PetTensors, place: str, weight: Tensor, hidden: Tensor) -> Change:
        scale = pet.tensor("scale") if place == "expand" else None
        return (None if scale is None else weight * scale), None


@pytest.fixture
def scale() -> Iterator[None]:
    KINDS.append(Scale())
    yield
    KINDS.pop()


@pytest.mark.usefixtures("scale")
def test_a_further_kind_is_stored_learns_and_serves_beside_the_others() -> None:
    torch.manual_seed(0)
    grown, plain = (PetWeights.initial(PetSpec(lora=2), SHAPE) for _ in range(2))
    grown.weights["scale"][:] = torch.tensor([[0.5], [0.25]])
    stored = PetWeights.from_stored(
        grown.spec.to_json(), {"layers": 2, "hidden": 7, "inner": 9}, grown.stored(torch.float32)
    )
    module, states = nn.Linear(7, 9), torch.randn(5, 7)
    served = SegmentPets.of([PackedPet.of(pet, torch.float32) for pet in (stored, plain)], [3, 2])
    with torch.no_grad():
        product = states @ module.weight.T
        expected = torch.cat((1.25 * product[:3], product[3:])) + module.bias
        torch.testing.assert_close(served.layer(1).linear("expand", module, states), expected)
        learning = SharedPets(stored.weights, stored.spec).layer(1).linear("expand", module, states[:3])
    torch.testing.assert_close(learning, expected[:3])

"""What a kind of PET is: its numbers, and what they change in a layer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from inference.hplm.pets.spec import PetSpec, UpperShape

if TYPE_CHECKING:
    from inference.hplm.pets.segments import PetTokens


Change = tuple[Tensor | None, Tensor | None]
"""What is added to a weight [out, in], and to the outputs [..., out]; None: nothing."""


class PetTensors(Protocol):
    """The numbers of one PET in one layer."""

    @property
    def spec(self) -> PetSpec:
        """The parts of the PET."""
        ...

    def tensor(self, name: str) -> Tensor | None:
        """The tensor of that name, without a dimension of layers; None where the PET has none."""


class PetKind:
    """A way to tune a model by few numbers (PetS, section 3.1): the shared product stays as it is, and the
    kind adds what its numbers change. A hook that a kind does not override changes nothing.

    A further kind is a subclass in `kinds.KINDS`, and a part of `PetSpec` that says its size.
    """

    name: str
    rate: float = 1.0
    """Its learning rate, as a multiple of the one that is set."""

    def shapes(self, spec: PetSpec, shape: UpperShape) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The names and shapes [L, ...] of the tensors that it trains for such a PET; none if the PET is of
        other kinds."""
        return iter(())

    def initial(self, name: str, size: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """An untrained tensor of that name. All of a kind together change nothing."""
        return torch.zeros(size)

    def begin(self, tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
        """Prepare untrained tensors [L, ...], in place, for the weights [L, out, in] of the maps by place."""

    def bias(self, pet: PetTensors, place: str) -> Tensor | None:
        """What is added to the bias [out] of the linear layer at `place`."""
        return None

    def norm(self, pet: PetTensors, name: str) -> tuple[Tensor, Tensor] | None:
        """What is added to weight and bias [d] of a layer norm."""
        return None

    def adapted(self, pet: PetTensors, part: str, hidden: Tensor) -> Tensor | None:
        """What is added to the states [..., d] of the tokens of one PET behind a block: behind attention
        (`adapter`), or behind the feed-forward block (`output_adapter`)."""
        return None

    def change(
        self,
        pets: Sequence["PetTokens"],
        modules: Mapping[str, nn.Linear],
        hidden: Tensor,
        results: Mapping[str, Tensor],
    ) -> None:
        """Add the changes of several PETs of this kind to the outputs [N, out] of maps with one input
        [N, in], in place, each to its own tokens. The names are places, in their order."""

    def learn(self, pet: PetTensors, place: str, weight: Tensor, hidden: Tensor) -> Change:
        """As `change`, for one PET that learns, of a map with the shared `weight` [out, in] and inputs
        [..., in]."""
        return None, None

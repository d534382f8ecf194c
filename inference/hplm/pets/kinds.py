"""The kinds of PETs: bottleneck adapters, LoRA, biases, layer norms, hidden and changed weights."""

from collections.abc import Iterator
from typing import Final

import torch
from torch import Tensor

from inference.hplm.bucketed_linear import padded_linear
from inference.hplm.pets.kind import PetKind, PetTensors
from inference.hplm.pets.low_rank import LowRank
from inference.hplm.pets.sparse import Diff, Mask
from inference.hplm.pets.spec import NORMS, PLACES, PetSpec, UpperShape

ADAPTER_SCALE: Final = 1e-2


class Bottleneck(PetKind):
    """Adapters: a narrow feed-forward block behind a block of the layer, added to its states (paper,
    equation 1; Houlsby et al. 2019).

    `adapter.*` and `output_adapter.*`: down_w [L, r, d], down_b [L, r], up_w [L, d, r], up_b [L, d].
    """

    name = "adapter"

    def shapes(self, spec: PetSpec, shape: UpperShape) -> Iterator[tuple[str, tuple[int, ...]]]:
        layers, hidden = shape.layers, shape.hidden
        for part, width in (("adapter", spec.adapter), ("output_adapter", spec.output_adapter)):
            if width:
                yield f"{part}.down_w", (layers, width, hidden)
                yield f"{part}.down_b", (layers, width)
                yield f"{part}.up_w", (layers, hidden, width)
                yield f"{part}.up_b", (layers, hidden)

    def initial(self, name: str, size: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        if name.endswith("down_w"):
            return torch.randn(size, generator=generator) * ADAPTER_SCALE
        return torch.zeros(size)

    def adapted(self, pet: PetTensors, part: str, hidden: Tensor) -> Tensor | None:
        down, up = pet.tensor(f"{part}.down_w"), pet.tensor(f"{part}.up_w")
        if down is None or up is None:
            return None
        narrow = padded_linear(hidden, down, pet.tensor(f"{part}.down_b")).relu()
        return padded_linear(narrow, up, pet.tensor(f"{part}.up_b"))


class Biases(PetKind):
    """The biases of all linear layers (BitFit; Ben Zaken et al. 2022): `bias.<place>` [L, out], added to the
    root's."""

    name = "biases"

    def shapes(self, spec: PetSpec, shape: UpperShape) -> Iterator[tuple[str, tuple[int, ...]]]:
        for place in PLACES if spec.biases else ():
            yield f"bias.{place}", (shape.layers, shape.sizes(place)[1])

    def bias(self, pet: PetTensors, place: str) -> Tensor | None:
        return pet.tensor(f"bias.{place}")


class Norms(PetKind):
    """Weights and biases of the layer norms: `norm.<name>.weight` and `.bias` [L, d], added to the root's."""

    name = "norms"

    def shapes(self, spec: PetSpec, shape: UpperShape) -> Iterator[tuple[str, tuple[int, ...]]]:
        for norm in NORMS if spec.norms else ():
            yield f"norm.{norm}.weight", (shape.layers, shape.hidden)
            yield f"norm.{norm}.bias", (shape.layers, shape.hidden)

    def norm(self, pet: PetTensors, name: str) -> tuple[Tensor, Tensor] | None:
        weight, bias = pet.tensor(f"norm.{name}.weight"), pet.tensor(f"norm.{name}.bias")
        return None if weight is None or bias is None else (weight, bias)


KINDS: Final[list[PetKind]] = [Bottleneck(), LowRank(), Biases(), Norms(), Mask(), Diff()]
"""All kinds, in the order of their tensors in a stored PET: new ones come last."""


def tensor_shapes(spec: PetSpec, shape: UpperShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names and shapes [L, ...] of the tensors of a PET."""
    for kind in KINDS:
        yield from kind.shapes(spec, shape)


def kinds_of(spec: PetSpec, shape: UpperShape) -> tuple[PetKind, ...]:
    """The kinds that such a PET consists of."""
    return tuple(kind for kind in KINDS if next(kind.shapes(spec, shape), None))

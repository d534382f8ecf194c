"""PETs at work in the layers of an encoder: one for all tokens, or one for each segment of a packed batch.

What all rows share is computed once for all of them: X W (PetS, section 3.1). Biases and norms that differ by
model are gathered by token; each other kind then adds what it changes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.bucketed_linear import add_product, linear
from inference.hplm.pets.kinds import KINDS
from inference.hplm.pets.packed import PackedPet
from inference.hplm.pets.segments import BatchTokens, PetSegment, PetTokens
from inference.hplm.pets.spec import PetSpec

Change = TypeVar("Change")
RowOnDevice = Callable[[PackedPet, int], Tensor]
"""Gives the row [width] of a PET in one layer on an accelerator."""


class LayerPets(Protocol):
    """What one layer asks of the PETs while it computes; hidden states are [..., width] throughout."""

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        """Apply the linear layer `module`, which is at `place`, with the PETs."""

    def linears(self, modules: Mapping[str, nn.Linear], hidden: Tensor) -> list[Tensor]:
        """The maps at these places, in the order of PLACES, of one input."""

    def norm(self, name: str, module: nn.LayerNorm, hidden: Tensor) -> Tensor:
        """Apply the layer norm `module` with the PETs."""

    def adapt(self, part: str, hidden: Tensor) -> Tensor:
        """Apply the adapters: `adapter` or `output_adapter`."""


class Pets(Protocol):
    """The PETs of a batch."""

    def layer(self, index: int) -> LayerPets:
        """The PETs of upper layer `index`."""


@dataclass(frozen=True, slots=True)
class SharedPets:
    """One PET for all rows of a batch, as in training."""

    weights: Mapping[str, Tensor]
    spec: PetSpec

    def layer(self, index: int) -> "SharedLayer":
        return SharedLayer({name: value[index] for name, value in self.weights.items()}, self.spec)


@dataclass(frozen=True, slots=True)
class SharedLayer:
    """One layer of `SharedPets`: the tensors without their first dimension."""

    weights: Mapping[str, Tensor]
    spec: PetSpec

    def tensor(self, name: str) -> Tensor | None:
        return self.weights.get(name)

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        weight: Tensor = module.weight
        bias: Tensor = module.bias
        updates: list[Tensor] = []
        for kind in KINDS if self.weights else ():
            if (shift := kind.bias(self, place)) is not None:
                bias = bias + shift
            change, update = kind.learn(self, place, module.weight, hidden)
            weight = weight if change is None else weight + change
            updates += [] if update is None else [update]
        result = linear(hidden, weight, bias)
        for update in updates:
            result = result + update
        return result

    def linears(self, modules: Mapping[str, nn.Linear], hidden: Tensor) -> list[Tensor]:
        return [self.linear(place, module, hidden) for place, module in modules.items()]

    def norm(self, name: str, module: nn.LayerNorm, hidden: Tensor) -> Tensor:
        weight: Tensor = module.weight
        bias: Tensor = module.bias
        for kind in KINDS if self.weights else ():
            if (shifts := kind.norm(self, name)) is not None:
                weight, bias = weight + shifts[0], bias + shifts[1]
        return functional.layer_norm(hidden, module.normalized_shape, weight, bias, module.eps)

    def adapt(self, part: str, hidden: Tensor) -> Tensor:
        for kind in KINDS if self.weights else ():
            if (update := kind.adapted(self, part, hidden)) is not None:
                hidden = hidden + update
        return hidden


class SegmentPets:
    """The PETs of a packed batch: of each segment, the neighbouring tokens of one hPLM, its own.

    A token whose PET lacks a part does not pay for it. On an accelerator `on_device` gives the rows of a
    layer when `load` asks for them, or at last when the layer does.
    """

    def __init__(
        self, segments: Sequence[PetSegment], tokens: int, on_device: RowOnDevice | None = None
    ) -> None:
        self._segments = [segment for segment in segments if segment.pet.layout.kinds]
        self._count, self._on_device = tokens, on_device
        self._rows: dict[int, list[Tensor]] = {}
        self._tokens: BatchTokens | None = None

    @classmethod
    def of(
        cls, pets: Sequence[PackedPet], lengths: Sequence[int], on_device: RowOnDevice | None = None
    ) -> "SegmentPets":
        """Of sequences of `lengths` tokens, the pet of each; neighbours that share one form a segment."""
        segments: list[PetSegment] = []
        end = 0
        for pet, length in zip(pets, lengths, strict=True):
            begin, end = end, end + length
            if segments and segments[-1].pet is pet:
                segments[-1] = replace(segments[-1], end=end)
            else:
                segments.append(PetSegment(pet, begin, end))
        return cls(segments, end, on_device)

    def load(self, index: int) -> list[Tensor]:
        """The segments' rows [width] of layer `index` on the device. Safe to repeat, not to run twice at
        once."""
        if index not in self._rows:
            self._rows[index] = [self._row(segment.pet, index) for segment in self._segments]
        return self._rows[index]

    def layer(self, index: int) -> "SegmentLayer":
        rows = self.load(index)
        if self._tokens is None:
            device = rows[0].device if rows else torch.device("cpu")
            self._tokens = BatchTokens(self._segments, self._count, device)
        pets = zip(self._segments, rows, strict=True)
        return SegmentLayer([PetTokens(segment, row, self._tokens) for segment, row in pets])

    def _row(self, pet: PackedPet, index: int) -> Tensor:
        return pet.rows[index] if self._on_device is None else self._on_device(pet, index)


class SegmentLayer:
    """One layer of `SegmentPets`; hidden states are [N, width]."""

    def __init__(self, pets: Sequence[PetTokens]) -> None:
        self.pets = pets
        of_kind = {kind: [pet for pet in pets if kind in pet.kinds] for kind in KINDS}
        self._by_kind = [(kind, own) for kind, own in of_kind.items() if own]

    def linears(self, modules: Mapping[str, nn.Linear], hidden: Tensor) -> list[Tensor]:
        shifts = [
            [_first(kind.bias(pet, place) for kind in pet.kinds) for place in modules] for pet in self.pets
        ]
        biases = self._by_token([module.bias for module in modules.values()], shifts)
        results = {}
        for (place, module), bias in zip(modules.items(), biases, strict=True):
            is_own = bias.dim() > 1
            results[place] = (
                add_product(bias, hidden, module.weight) if is_own else linear(hidden, module.weight, bias)
            )
        for kind, pets in self._by_kind:
            kind.change(pets, modules, hidden, results)
        return [*results.values()]

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        return self.linears({place: module}, hidden)[0]

    def norm(self, name: str, module: nn.LayerNorm, hidden: Tensor) -> Tensor:
        shifts = [_first(kind.norm(pet, name) for kind in pet.kinds) or (None, None) for pet in self.pets]
        weight, bias = self._by_token([module.weight, module.bias], shifts)
        if weight.dim() == 1:
            return functional.layer_norm(hidden, module.normalized_shape, weight, bias, module.eps)
        normed = functional.layer_norm(hidden, module.normalized_shape, eps=module.eps)
        return torch.addcmul(bias, normed, weight)

    def adapt(self, part: str, hidden: Tensor) -> Tensor:
        """As `LayerPets.adapt`; `hidden` itself is changed."""
        for pet in self.pets:
            own = pet.tokens(hidden)
            if (update := _first(kind.adapted(pet, part, own) for kind in pet.kinds)) is not None:
                own.add_(update)
        return hidden

    def _by_token(
        self, shared: Sequence[Tensor], shifts: Sequence[Sequence[Tensor | None]]
    ) -> Sequence[Tensor]:
        """Shared vectors [d] with what each PET adds to each of them, if anything: by token [N, d]; as they
        are [d] where nothing is added or one PET has all tokens."""
        if all(shift is None for of_pet in shifts for shift in of_pet):
            return shared
        if self.pets[0].has_all_tokens:
            return [one if own is None else one + own for one, own in zip(shared, shifts[0], strict=True)]
        nothing = torch.zeros_like(shared[0])
        added = [nothing if shift is None else shift for of_pet in shifts for shift in of_pet]
        rows = torch.stack([*shared, *added]).view(-1, len(shared), len(shared[0]))
        rows[1:].add_(rows[0])
        return rows.index_select(0, self.pets[0].batch.number_of_pet).unbind(1)


def _first(changes: Iterable[Change | None]) -> Change | None:
    """What the one kind gives that changes this part of a layer."""
    return next((change for change in changes if change is not None), None)

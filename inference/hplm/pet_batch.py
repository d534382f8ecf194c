"""PETs at work inside a layer: one for all tokens, or one for each segment (paper, section 6.3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.bucketed_linear import bucket_size, linear
from inference.hplm.pets import PackedPet, PetLayout

MERGE_THRESHOLD = 4
"""LoRA is merged into the weights if a batch has this many times more tokens than the layer is wide.

A CPU training step of 16 texts of 128 tokens with a hidden size of 384 then takes 71% of the time.
"""


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

    def layer(self, index: int) -> "SharedLayer":
        return SharedLayer({name: value[index] for name, value in self.weights.items()})


@dataclass(frozen=True, slots=True)
class SharedLayer:
    """One layer of `SharedPets`: the tensors without their first dimension."""

    weights: Mapping[str, Tensor]

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        a, shift = self.weights.get(f"lora.{place}.a"), self.weights.get(f"bias.{place}")
        bias = module.bias if shift is None else module.bias + shift
        if a is None:
            return linear(hidden, module.weight, bias)
        b = self.weights[f"lora.{place}.b"]
        if hidden.shape[:-1].numel() >= MERGE_THRESHOLD * min(module.weight.shape):
            return functional.linear(hidden, module.weight + b @ a, bias)
        update = functional.linear(functional.linear(hidden, a), b)
        return functional.linear(hidden, module.weight, bias) + update

    def linears(self, modules: Mapping[str, nn.Linear], hidden: Tensor) -> list[Tensor]:
        return [self.linear(place, module, hidden) for place, module in modules.items()]

    def norm(self, name: str, module: nn.LayerNorm, hidden: Tensor) -> Tensor:
        shift = self.weights.get(f"norm.{name}.weight")
        if shift is None:
            plain: Tensor = module(hidden)
            return plain
        bias = module.bias + self.weights[f"norm.{name}.bias"]
        return functional.layer_norm(hidden, module.normalized_shape, module.weight + shift, bias, module.eps)

    def adapt(self, part: str, hidden: Tensor) -> Tensor:
        down = self.weights.get(f"{part}.down_w")
        if down is None:
            return hidden
        narrow = functional.linear(hidden, down, self.weights[f"{part}.down_b"]).relu()
        return hidden + functional.linear(narrow, self.weights[f"{part}.up_w"], self.weights[f"{part}.up_b"])


class SegmentPets:
    """The PETs of a packed batch: of each segment, the neighbouring tokens of one hPLM, its own.

    A segment's products are computed for its tokens alone and added to those of the shared weights in place:
    a token whose PET lacks a part does not pay for it. On an accelerator `on_device` gives the rows of a
    layer when `load` asks for them, or at last when the layer does.
    """

    def __init__(
        self, segments: Sequence["PetSegment"], tokens: int, on_device: RowOnDevice | None = None
    ) -> None:
        self._segments = [segment for segment in segments if segment.pet.layout.width]
        self._tokens, self._on_device = tokens, on_device
        self._rows: dict[int, list[Tensor]] = {}

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
        return SegmentLayer(
            [
                LayerSegment(
                    segment.pet.layout, row, segment.begin, segment.end, self._window(segment, row.dtype)
                )
                for segment, row in zip(self._segments, self.load(index), strict=True)
            ]
        )

    def _row(self, pet: PackedPet, index: int) -> Tensor:
        return pet.rows[index] if self._on_device is None else self._on_device(pet, index)

    def _window(self, segment: "PetSegment", dtype: torch.dtype) -> tuple[int, int]:
        """The tokens that are computed for a segment: its own, and as many others as make the shape of the
        product one of few. What is computed of others is dropped."""
        size = (
            bucket_size(segment.end - segment.begin)
            if self._on_device is None and dtype != torch.float32
            else 0
        )
        if size <= segment.end - segment.begin or size > self._tokens:
            return segment.begin, segment.end
        begin = min(segment.begin, self._tokens - size)
        return begin, begin + size


@dataclass(frozen=True, slots=True, eq=False)
class PetSegment:
    """Tokens `begin` to `end` of a packed batch, which use one PET."""

    pet: PackedPet
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class LayerSegment:
    """What one layer asks of a segment: the `row` [width] of its PET, its tokens `begin` to `end`, and the
    `window` of tokens that are computed."""

    layout: PetLayout
    row: Tensor
    begin: int
    end: int
    window: tuple[int, int]

    def tensor(self, name: str) -> Tensor | None:
        """The PET's tensor of that name, None where it has none."""
        return self.layout.view(self.row, name)

    def tokens(self, states: Tensor) -> Tensor:
        """The segment's own part of states [N, ...]."""
        return states[self.begin : self.end]

    def computed(self, states: Tensor) -> Tensor:
        """The part of states [N, ...] that is computed for the segment."""
        return states[slice(*self.window)]

    def product(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Outputs [n, out] of the n tokens of the window. Where that could not be widened to one of few
        sizes, the product is split into such sizes: a CPU keeps a kernel for each size in memory."""
        is_widened = self.window != (self.begin, self.end)
        return (functional.linear if is_widened else linear)(hidden, weight, bias)

    def add(self, to: Tensor, update: Tensor) -> None:
        """Add the segment's own part of an update of its window to states [N, ...]."""
        begin = self.begin - self.window[0]
        self.tokens(to).add_(update[begin : begin + self.end - self.begin])

    def change(self, results: Mapping[str, Tensor], hidden: Tensor) -> None:
        """Add the low-rank updates and biases of these maps to their results [N, out] of `hidden` [N, in]."""
        down, changed = self.layout.shrink(self.row, results)
        if down is not None:
            narrow = self.product(self.computed(hidden), down, None).chunk(len(changed), 1)
            for place, part in zip(changed, narrow, strict=True):
                up, bias = self.tensor(f"lora.{place}.b"), self.tensor(f"bias.{place}")
                assert up is not None
                self.add(results[place], self.product(part, up, bias))
        for place in results.keys() - set(changed):
            if (bias := self.tensor(f"bias.{place}")) is not None:
                self.tokens(results[place]).add_(bias)

    def add_adapter(self, part: str, hidden: Tensor) -> None:
        """Add what the adapters of that name make of `hidden` [N, d] to it (paper, equation 1)."""
        down, down_b, up, up_b = (self.tensor(f"{part}.{name}") for name in _ADAPTER)
        if down is not None and up is not None:
            narrow = self.product(self.computed(hidden), down, down_b).relu_()
            self.add(hidden, self.product(narrow, up, up_b))


@dataclass(frozen=True, slots=True)
class SegmentLayer:
    """One layer of `SegmentPets`; hidden states are [N, width]."""

    segments: list[LayerSegment]

    def linears(self, modules: Mapping[str, nn.Linear], hidden: Tensor) -> list[Tensor]:
        results = {place: linear(hidden, one.weight, one.bias) for place, one in modules.items()}
        for segment in self.segments:
            segment.change(results, hidden)
        return [*results.values()]

    def linear(self, place: str, module: nn.Linear, hidden: Tensor) -> Tensor:
        return self.linears({place: module}, hidden)[0]

    def norm(self, name: str, module: nn.LayerNorm, hidden: Tensor) -> Tensor:
        result: Tensor = module(hidden)
        normed: Tensor | None = None
        for segment in self.segments:
            weight, bias = (segment.tensor(f"norm.{name}.{kind}") for kind in ("weight", "bias"))
            if weight is not None and bias is not None:
                if normed is None:
                    normed = functional.layer_norm(hidden, module.normalized_shape, eps=module.eps)
                changed = torch.addcmul(module.bias + bias, segment.tokens(normed), module.weight + weight)
                segment.tokens(result).copy_(changed)
        return result

    def adapt(self, part: str, hidden: Tensor) -> Tensor:
        """As `LayerPets.adapt`; `hidden` itself is changed."""
        for segment in self.segments:
            segment.add_adapter(part, hidden)
        return hidden


_ADAPTER = ("down_w", "down_b", "up_w", "up_b")

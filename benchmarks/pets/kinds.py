"""The kinds of PETs that are measured, and what each asks of memory and of the processor.

All that these benchmarks know of the product's PETs stands here and in `upper_layers`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import torch

from benchmarks.serving.world import DEFAULT_PET, PETS, Encoder
from inference.hplm.pets.kinds import tensor_shapes
from inference.hplm.pets.packed import PackedPet, shared_layout
from inference.hplm.pets.spec import PetSpec, UpperShape
from inference.hplm.pets.weights import PetWeights

LORA: Final = "LoRA"
"""The product's default kind."""
ADAPTER: Final = "Adapter"
KINDS: Final[Mapping[str, PetSpec]] = {
    ADAPTER: PetSpec(adapter=64, output_adapter=64),
    "BitFit": PetSpec(biases=True, norms=True),
    "MaskBert": PetSpec(mask=0.05),
    "Diff-pruning": PetSpec(diff=0.005, biases=True),
    LORA: PETS[DEFAULT_PET],
}
"""As table 4 of the paper has them. LoRA is not among the paper's four."""
LEARNT: Final = 0.01
"""Standard deviation of what random PETs have learned."""


def upper_shape(encoder: Encoder) -> UpperShape:
    """The layers above the cut, which is in the middle."""
    return UpperShape(encoder.layers - encoder.layers // 2, encoder.hidden, encoder.inner)


def random_pet(kind: str, shape: UpperShape, seed: int, dtype: torch.dtype) -> PackedPet:
    """A PET of that kind with random weights."""
    draw = torch.Generator().manual_seed(seed)
    fresh = PetWeights.initial(KINDS[kind], shape, generator=draw)
    learnt = {
        name: value + LEARNT * torch.randn(value.shape, generator=draw)
        for name, value in fresh.weights.items()
    }
    return PackedPet.of(PetWeights(fresh.spec, shape, learnt), dtype)


def draw_kinds(tasks: int, seed: int, kinds: Sequence[str] = tuple(KINDS)) -> list[str]:
    """The kind of each task: all as often as each other, in random order."""
    even = [kinds[at % len(kinds)] for at in range(tasks)]
    order = torch.randperm(tasks, generator=torch.Generator().manual_seed(seed)).tolist()
    return [even[at] for at in order]


def pet_bytes(spec: PetSpec, shape: UpperShape) -> int:
    """What a PET takes in memory, in fp32."""
    return shape.layers * shared_layout(spec, shape).row_width(torch.float32) * torch.float32.itemsize


@dataclass(frozen=True, slots=True)
class Work:
    """FLOP, and bytes read and written, of a PET's operators in all layers."""

    flop: float
    bytes: float


def work(kind: str, shape: UpperShape, tokens: int, itemsize: int) -> Work:
    """Of so many tokens: two FLOP for each weight of a matrix and token, one for each bias. Of each tensor
    the weights are read once; each matrix reads an input and adds to an output, each bias adds to one."""
    flop = numbers = 0
    sparse = shared_layout(KINDS[kind], shape).sparse
    for name, (layers, *size) in tensor_shapes(KINDS[kind], shape):
        count = layers * (sparse[name].count if name in sparse else prod(size))
        flop += tokens * count * (2 if len(size) == 2 else 1)
        numbers += count + layers * tokens * (sum(size) if len(size) == 2 else 2 * size[0])
    return Work(float(flop), float(numbers * itemsize))

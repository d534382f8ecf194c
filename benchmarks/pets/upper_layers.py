"""The upper layers of an encoder at work, alone and with PETs, in one thread as the product computes them."""

import time
from collections.abc import Callable, Sequence
from typing import Final, cast

import torch
from torch import Tensor

from benchmarks.pets.kinds import random_pet, upper_shape
from benchmarks.serving.world import Encoder
from inference.hplm.encoder import NO_PETS, EncoderBlock, UpperLayers
from inference.hplm.pets.batch import LayerPets, SegmentPets
from inference.hplm.pets.packed import PackedPet
from inference.hplm.sequences import PackedSequences

FEW_TOKENS: Final = 256
"""Fewer are computed several times in a measurement."""


class Upper:
    """Layers of random weights, PETs of any kind and states to compute, on a CPU. Seconds are the processor
    time of one thread: what else the machine does is not in them."""

    def __init__(self, encoder: Encoder, dtype: torch.dtype) -> None:
        self.encoder, self.dtype = encoder, dtype
        self.shape = upper_shape(encoder)
        self.layers = random_layers(encoder, dtype, seed=0)
        self._states = torch.empty(0, encoder.hidden, dtype=dtype)
        self._pets: dict[tuple[str, int], PackedPet] = {}

    def pet(self, kind: str, task: int) -> PackedPet:
        """The PET of a task. Made once."""
        if (kind, task) not in self._pets:
            self._pets[kind, task] = random_pet(kind, self.shape, task, self.dtype)
        return self._pets[kind, task]

    def pets(self, tasks: Sequence[tuple[str, int]], lengths: Sequence[int]) -> SegmentPets:
        """The PETs of texts of so many tokens, of each the kind and the task; neighbors share one."""
        return SegmentPets.of([self.pet(*task) for task in tasks], lengths)

    def states(self, tokens: int) -> Tensor:
        """Random states [tokens, d] at the cut."""
        if len(self._states) < tokens:
            draw = torch.Generator().manual_seed(0)
            self._states = torch.randn(tokens, self.encoder.hidden, generator=draw).to(self.dtype)
        return self._states[:tokens]

    def packed_seconds(
        self, lengths: Sequence[int], pets: SegmentPets | None = None, layers: UpperLayers | None = None
    ) -> float:
        """Texts of so many tokens in the engine's form, without padding. layers: others than the shared."""
        sequences, upper = PackedSequences(tuple(lengths)), layers or self.layers
        states = self.states(sequences.tokens)
        return processor_seconds(lambda: upper(states, sequences, pets))

    def padded_seconds(self, count: int, length: int) -> float:
        """Texts that are padded to one length, as PetS computes them, without PETs. The mask leaves out the
        last token of every second text, so that attention has to heed it."""
        states = self.states(count * length).view(count, length, -1)
        mask = torch.ones(count, length, dtype=torch.bool)
        mask[::2, -1] = length == 1
        return processor_seconds(lambda: self.layers(states, mask), passes=passes_of(count * length))

    def pet_seconds(self, kind: str, count: int, length: int) -> float:
        """What the PET operators alone take for `count` texts of one task, padded to one length: every place
        of every layer with the PET, less the same without."""
        tokens = count * length
        pets = self.pets([(kind, 0)], [tokens])
        total = 0.0
        for index, layer in enumerate(self.layers.layers):
            block, of_layer = cast("EncoderBlock", layer), pets.layer(index)
            total += self._places_seconds(block, of_layer, tokens)
            total -= self._places_seconds(block, NO_PETS, tokens)
        return total

    def _places_seconds(self, block: EncoderBlock, pets: LayerPets, tokens: int) -> float:
        """Everything in a layer that a PET can change; attention and activation are left out."""
        assert block.attention_norm is not None
        attention_norm, states = block.attention_norm, self.states(tokens)
        inner = self.states(tokens * self.shape.inner // self.shape.hidden).view(tokens, self.shape.inner)
        maps = {"query": block.query, "key": block.key, "value": block.value}

        def compute() -> None:
            pets.linears(maps, states)
            pets.linear("output", block.output, states)
            pets.adapt("adapter", pets.norm("attention", attention_norm, states))
            pets.linear("expand", block.expand, states)
            pets.linear("contract", block.contract, inner)
            pets.adapt("output_adapter", pets.norm("output", block.output_norm, states))

        return processor_seconds(compute, passes=passes_of(tokens))


def random_layers(encoder: Encoder, dtype: torch.dtype, *, seed: int) -> UpperLayers:
    """Upper layers of that shape."""
    torch.manual_seed(seed)
    shape = encoder.architecture
    layers = UpperLayers(shape, encoder.layers - encoder.layers // 2)
    return layers.eval().requires_grad_(False).to(dtype)


def processor_seconds(compute: Callable[[], object], *, passes: int = 1) -> float:
    """The processor time of all threads of this process while it computes, the mean of so many passes."""
    with torch.inference_mode():
        started = time.process_time()
        for _ in range(passes):
            compute()
        return (time.process_time() - started) / passes


def passes_of(tokens: int) -> int:
    """What takes little time is measured more often."""
    return max(1, FEW_TOKENS // tokens)

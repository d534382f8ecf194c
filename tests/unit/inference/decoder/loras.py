"""Random LoRAs and adapters on a small decoder, and what they add by a loop in float64."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.decoder.lora import DecoderLora
from inference.decoder.lora_layout import DecoderShape, changed_maps, is_adapter, map_shape

Parts = Sequence[tuple[DecoderLora | None, int]]


@dataclass(frozen=True)
class SmallDecoder:
    """A decoder's shape; by default with sizes that no block of a kernel divides."""

    layers: int = 3
    hidden: int = 37
    keys: int = 41
    inner: int = 70
    projections: tuple[str, ...] = ("query", "key", "value", "output", "gate", "up", "down")

    def projection_shape(self, projection: str) -> tuple[int, int]:
        sizes = {
            "key": (self.hidden, self.keys),
            "value": (self.hidden, self.keys),
            "gate": (self.hidden, self.inner),
            "up": (self.hidden, self.inner),
            "down": (self.inner, self.hidden),
        }
        return sizes.get(projection, (self.hidden, self.hidden))


def random_lora(
    shape: DecoderShape,
    ranks: Mapping[tuple[int, str], int],
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    scale: float = 1.0,
) -> DecoderLora:
    """A LoRA with factors of these ranks, also of adapters, whose updates are so large."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for (layer, projection), rank in ranks.items():
        inputs, outputs = map_shape(shape, projection)
        a = torch.randn(inputs, rank, generator=generator) / inputs**0.5
        b = torch.randn(rank, outputs, generator=generator) * scale / rank**0.5
        tensors[layer, projection] = (a.to(dtype), b.to(dtype))
    return DecoderLora.of(tensors, shape)


def full_lora(
    shape: SmallDecoder, rank: int, seed: int = 0, dtype: torch.dtype = torch.float32
) -> DecoderLora:
    """A LoRA of one rank on all projections of all layers, and adapters of that width."""
    ranks = {(layer, name): rank for layer in range(shape.layers) for name in changed_maps(shape)}
    return random_lora(shape, ranks, seed, dtype)


def mixed_parts(shape: SmallDecoder) -> list[tuple[DecoderLora | None, int]]:
    """A step whose LoRAs differ in ranks, projections and tokens."""
    return [
        (full_lora(shape, 4), 2),
        (None, 3),
        (random_lora(shape, {(0, "query"): 1, (0, "value"): 33}), 1),
        (random_lora(shape, {(0, "down"): 70, (1, "up"): 2}), 0),
        (random_lora(shape, {(0, "down"): 70, (1, "up"): 2}), 17),
        (random_lora(shape, {(0, "adapter"): 33, (0, "output_adapter"): 2}), 18),
    ]


def random_states(
    shape: SmallDecoder, projection: str, tokens: int, seed: int = 1, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Inputs [T, in] and outputs [T, out] of a projection. Those of an adapter are one tensor."""
    generator = torch.Generator().manual_seed(seed)
    inputs, outputs = map_shape(shape, projection)
    read = torch.randn(tokens, inputs, generator=generator).to(dtype)
    if is_adapter(projection):
        return read, read
    return read, torch.randn(tokens, outputs, generator=generator).to(dtype)


def looped(parts: Parts, layer: int, projection: str, inputs: Tensor, outputs: Tensor) -> Tensor:
    """Outputs [T, out] float64 plus the LoRAs' updates, token by token."""
    results = outputs.double().clone()
    loras = [lora for lora, count in parts for _ in range(count)]
    for row, lora in enumerate(loras):
        factors = None if lora is None else lora.tensors.get((layer, projection))
        if factors is not None:
            narrow = inputs[row].double() @ factors[0].double()
            results[row] += (narrow.relu() if is_adapter(projection) else narrow) @ factors[1].double()
    return results

"""LoRAs and adapters of a step on a GPU, by compiled kernels: against a loop in float64 on the CPU."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from inference.decoder.lora_deltas import LoraDeltas
from inference.decoder.lora_layout import changed_maps
from inference.decoder.sgmv.stacks import LoraStacks
from tests.unit.inference.decoder.loras import (
    Parts,
    SmallDecoder,
    full_lora,
    looped,
    mixed_parts,
    random_states,
)

SHAPES = {
    "odd sizes": SmallDecoder(),
    "sizes of real models": SmallDecoder(layers=2, hidden=576, keys=192, inner=1536),
}
PARTS: dict[str, Callable[[SmallDecoder], Parts]] = {
    "distinct": lambda shape: [(full_lora(shape, 16, seed), 1) for seed in range(32)],
    "uniform": lambda shape: [(full_lora(shape, 8, seed), 6) for seed in range(6)],
    "identical": lambda shape: [(full_lora(shape, 128), 32)],
    "mixed": lambda shape: [*mixed_parts(shape), (full_lora(shape, 17, seed=1), 70)],
}
TOLERANCES = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}


def on(device: torch.device, dtype: torch.dtype, parts: Parts) -> Parts:
    """The LoRAs where and as they are computed."""
    return [(lora and lora.to(device, dtype), count) for lora, count in parts]


def added(parts: Parts, place: tuple[int, str], inputs: Tensor, outputs: Tensor) -> Tensor:
    """The outputs with what a step's LoRAs add. An adapter reads the tensor that it changes."""
    results = outputs.clone()
    return LoraDeltas(parts, LoraStacks())(*place, results if inputs is outputs else inputs, results)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_update_is_that_of_a_loop(
    device: torch.device, dtype: torch.dtype, parts: str, shape: str
) -> None:
    decoder = SHAPES[shape]
    own = on(device, dtype, PARTS[parts](decoder))
    for place in [(layer, name) for layer in (0, 1) for name in changed_maps(decoder)]:
        read = random_states(decoder, place[1], sum(count for _, count in own), dtype=dtype)
        inputs = read[0].to(device)
        outputs = inputs if read[1] is read[0] else read[1].to(device)
        expected = looped(on(torch.device("cpu"), dtype, own), *place, *read)
        tolerance = TOLERANCES[dtype]
        torch.testing.assert_close(
            added(own, place, inputs, outputs).cpu().double(), expected, rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("projection", ["query", "key", "up", "down"])
def test_a_row_has_the_same_bits_in_any_company_and_each_time(
    device: torch.device, dtype: torch.dtype, projection: str
) -> None:
    """A CPU promises that in float32 alone."""
    decoder, place = SHAPES["sizes of real models"], (0, projection)
    loras = [full_lora(decoder, rank, seed).to(device, dtype) for seed, rank in enumerate((4, 16, 64))]
    inputs, outputs = (states.to(device) for states in random_states(decoder, projection, 42, dtype=dtype))
    parts: Parts = [(loras[0], 1), (loras[1], 20), (None, 3), (loras[2], 17), (loras[0], 1)]
    together, again = (added(parts, place, inputs, outputs) for _ in range(2))
    assert torch.equal(together, again)
    owners = [lora for lora, count in parts for _ in range(count)]
    for row in range(42):
        own = slice(row, row + 1)
        alone = added([(owners[row], 1)], place, inputs[own], outputs[own])
        if device.type == "cuda" or dtype == torch.float32:
            assert torch.equal(together[own], alone)
        torch.testing.assert_close(together[own], alone, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])

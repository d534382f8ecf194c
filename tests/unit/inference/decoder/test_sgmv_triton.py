"""The Triton kernels, in Triton's interpreter: against a loop in float64, and the same in any company.
They also compile for GPUs that are not there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import inference
from inference.decoder.sgmv.segments import Segments
from tests.gpus import needs_triton_interpreter
from tests.unit.inference.decoder.loras import (
    Parts,
    SmallDecoder,
    full_lora,
    looped,
    mixed_parts,
    random_lora,
    random_states,
)

triton_sgmv: Any = pytest.importorskip("inference.decoder.sgmv.triton_sgmv", reason="Triton is not installed")

pytestmark = needs_triton_interpreter
SHAPE = SmallDecoder()


def added(parts: Parts, inputs: Tensor, outputs: Tensor, place: tuple[int, str]) -> Tensor:
    """The outputs with what a step's LoRAs add."""
    results = outputs.clone()
    sgmv = triton_sgmv.TritonSgmv(Segments.of(parts))
    added: Tensor = sgmv(*place, results if inputs is outputs else inputs, results)
    return added


def assert_as_looped(parts: Parts, place: tuple[int, str], shape: SmallDecoder = SHAPE) -> None:
    inputs, outputs = random_states(shape, place[1], sum(count for _, count in parts))
    expected = looped(parts, *place, inputs, outputs)
    torch.testing.assert_close(added(parts, inputs, outputs, place).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("counts", "rank"), [([1] * 6, 4), ([18, 4, 2, 1], 17), pytest.param([21], 128, marks=pytest.mark.slow)]
)
def test_the_update_is_that_of_a_loop(counts: list[int], rank: int) -> None:
    """Of an even and an odd rank, of short and long segments."""
    place = (0, "up")
    parts = [(random_lora(SHAPE, {place: rank}, seed), count) for seed, count in enumerate(counts)]
    assert_as_looped(parts, place)


@pytest.mark.parametrize(
    "projection",
    [
        *("value", "down", "adapter"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("query", "gate")),
    ],
)
def test_ranks_and_projections_differ_in_one_step(projection: str) -> None:
    assert_as_looped([*mixed_parts(SHAPE), (full_lora(SHAPE, 4, seed=1), 1)], (0, projection))


@pytest.mark.parametrize("inputs", [255, 600, pytest.param(2100, marks=pytest.mark.slow)])
def test_the_parts_of_a_split_input_are_added_up(inputs: int) -> None:
    shape = SmallDecoder(layers=1, hidden=inputs, keys=5)
    place = (0, "key")
    assert_as_looped([(random_lora(shape, {place: 8}, seed), 1) for seed in range(2)], place, shape)


def test_projections_that_read_the_same_inputs_follow_each_other() -> None:
    parts = [(full_lora(SHAPE, 4), 2), (random_lora(SHAPE, {(0, "key"): 2}), 1)]
    sgmv = triton_sgmv.TritonSgmv(Segments.of(parts))
    inputs, _ = random_states(SHAPE, "query", 3)
    for projection in ("query", "key", "value"):
        _, outputs = random_states(SHAPE, projection, 3)
        expected = looped(parts, 0, projection, inputs, outputs)
        result = sgmv(0, projection, inputs, outputs)
        torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


def test_a_step_may_change_one_tensor_by_an_adapter_again_and_again() -> None:
    parts, place = [(full_lora(SHAPE, 4), 2), (None, 1), (full_lora(SHAPE, 9, 1), 1)], (1, "output_adapter")
    sgmv = triton_sgmv.TritonSgmv(Segments.of(parts))
    states, _ = random_states(SHAPE, "output_adapter", 4)
    once = looped(parts, *place, states, states)
    twice = looped(parts, *place, once, once)
    for _ in range(2):
        sgmv(*place, states, states)
    torch.testing.assert_close(states.double(), twice, rtol=1e-5, atol=1e-5)


def test_the_numbers_of_a_token_do_not_depend_on_its_company() -> None:
    shape, place = SmallDecoder(layers=1, hidden=300, keys=65), (0, "key")
    loras = [random_lora(shape, {place: rank}, rank) for rank in (4, 9, 64)]
    inputs, outputs = random_states(shape, "key", 24)
    together = added([(loras[0], 1), (loras[1], 20), (loras[2], 2), (loras[0], 1)], inputs, outputs, place)
    # The first rows of tiles: NumPy, which the interpreter multiplies with, treats the others differently.
    for row, lora in ((0, loras[0]), (1, loras[1]), (17, loras[1]), (21, loras[2])):
        own = slice(row, row + 1)
        assert torch.equal(together[own], added([(lora, 1)], inputs[own], outputs[own], place))


def distinct_tokens(count: int) -> Parts:
    """A step as large as one of `count` decoded tokens can be."""
    return [(full_lora(SHAPE, 9, seed), 1) for seed in range(count)]


@pytest.mark.parametrize(
    "parts",
    [
        [(None, 4)],
        [(full_lora(SHAPE, 4, 7), 4)],
        [(random_lora(SHAPE, {(0, "key"): 9, (2, "up"): 1}), 1), (None, 1), (full_lora(SHAPE, 9, 8), 2)],
    ],
)
def test_metadata_that_is_replaced_in_place_gives_the_same_numbers_as_new(parts: Parts) -> None:
    sgmv = triton_sgmv.TritonSgmv(Segments.of(distinct_tokens(4)))
    for step in (parts, distinct_tokens(4), parts):
        sgmv.refresh(Segments.of(step))
        for projection in ("query", "key"):
            inputs, outputs = random_states(SHAPE, projection, 4)
            expected = looped(step, 0, projection, inputs, outputs)
            result = sgmv(0, projection, inputs, outputs)
            torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("first", "step"),
    [
        (distinct_tokens(3), distinct_tokens(4)),
        (distinct_tokens(3), [(full_lora(SHAPE, 10), 1)]),
        ([(random_lora(SHAPE, {(0, "key"): 64}), 1)], [(random_lora(SHAPE, {(1, "up"): 4}), 1)]),
    ],
)
def test_a_step_that_is_larger_than_the_first_does_not_replace_it(first: Parts, step: Parts) -> None:
    sgmv = triton_sgmv.TritonSgmv(Segments.of(first))
    with pytest.raises(AssertionError, match="first"):
        sgmv.refresh(Segments.of(step))


@pytest.mark.slow
def test_every_kernel_compiles_for_every_generation_of_gpus(tmp_path: Path) -> None:
    """From T4 and A100 to H100, in each dtype. Neither a GPU nor a driver is needed, nor a cache read. None
    loads factors or inputs of half precision number by number."""
    sources = (path.read_text() for path in Path(inference.__path__[0]).rglob("*.py"))
    kernels = {name for source in sources for name in re.findall(r"(?m)^@triton\.jit\b.*\ndef (\w+)", source)}
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    made = subprocess.run(
        [sys.executable, "-m", "tests.unit.inference.decoder.compile_kernels", "75", "80", "90"],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    compiled = json.loads(made.stdout)
    assert kernels
    assert {(name, target.rstrip("a")) for name, _, target in compiled} == {
        (name, f"sm_{capability}") for name in kernels for capability in (75, 80, 90)
    }
    loads = [set(re.findall(r"ld\.global\.[.\w]+", path.read_text())) for path in tmp_path.rglob("*.ptx")]
    assert len(loads) >= 18  # shrink and expand by dtype and generation
    assert not any("ld.global.b16" in found for found in loads), loads

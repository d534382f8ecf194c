"""The numbers of a sequence have the same bits in any company."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from inference.decoder.activations import ACTIVATIONS
from inference.decoder.decoder import Decoder, linear
from inference.hplm.devices import has_native_bfloat16
from tests.unit.inference.decoder.packing import logits_of, random_sequences
from tests.unit.tiny_decoder import FAMILIES, tiny_decoder

DTYPES = [torch.float32, torch.bfloat16]
IS_EMULATED = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) and not has_native_bfloat16(
    torch.device("cpu")
)
"""Whether oneDNN computes bfloat16 by other instructions (AVX-512 without them): its kernels round by the
number of rows. Nothing is served in it there unless it is asked for."""
WIDTHS: dict[str, dict[str, Any]] = {
    "llama": {"intermediate_size": 80},
    "gpt2": {"n_inner": 48},
    "opt": {"ffn_dim": 112, "activation_function": "gelu"},
}


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Threads that share the rows of a product."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.skipif(IS_EMULATED, reason="emulated"))],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_sequence_has_the_same_logits_in_any_company(family: str, dtype: torch.dtype, threads: int) -> None:
    single = tiny_decoder(family, **WIDTHS.get(family, {}))
    decoder = Decoder.from_weights(single.architecture, single.weights, dtype=dtype)
    sequences = random_sequences((1, 1, 2, 3, 5, 7, 7, 19, 64))
    with torch.inference_mode():
        alone = [logits_of(decoder, [sequence])[0] for sequence in sequences]
        together = logits_of(decoder, sequences)
        reversed_order = logits_of(decoder, sequences[::-1])[::-1]
    for expected, *others in zip(alone, together, reversed_order, strict=True):
        assert all(torch.equal(expected, other) for other in others)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inputs", [48, 576])
def test_a_row_of_a_product_has_the_same_bits_at_any_place_of_any_number_of_rows(
    inputs: int, dtype: torch.dtype, threads: int
) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, bias = (torch.randn(shape, generator=generator).to(dtype) for shape in ((37, inputs), (37,)))
    row = torch.randn(1, inputs, generator=generator).to(dtype)
    expected = linear(row, weight, bias)
    for rows in (*range(2, 40), 127, 301):
        found = linear(row.repeat(rows, 1), weight, bias)
        assert torch.equal(found, expected.expand(rows, -1)), rows


@given(rows=some.integers(1, 400), width=some.integers(1, 300), name=some.sampled_from(sorted(ACTIVATIONS)))
def test_an_activation_has_the_same_bits_at_any_place(rows: int, width: int, name: str) -> None:
    row = torch.randn(1, width, generator=torch.Generator().manual_seed(width))
    with torch.no_grad():
        expected, found = ACTIVATIONS[name](row), ACTIVATIONS[name](row.repeat(rows, 1))
    assert torch.equal(found, expected.expand(rows, -1))


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_activation_in_inference_is_that_of_training(name: str, dtype: torch.dtype) -> None:
    states = torch.linspace(-12, 12, 1001).to(dtype)
    with torch.no_grad():
        found = ACTIVATIONS[name](states)
    torch.testing.assert_close(
        found, ACTIVATIONS[name](states), rtol=2e-5 if dtype == torch.float32 else 0.01, atol=1e-6
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_row_gives_no_row(dtype: torch.dtype) -> None:
    assert linear(torch.empty(0, 8, dtype=dtype), torch.ones(3, 8, dtype=dtype), None).shape == (0, 3)

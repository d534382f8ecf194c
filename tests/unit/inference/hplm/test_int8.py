"""Upper layers with int8 weights: how close they are to float, and what a row's result depends on."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from inference.errors import HplmError
from inference.hplm import int8_scales
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.encoder import UpperLayers
from inference.hplm.int8_linear import HEADROOM, InputScale, Int8Linear, padded_rows
from inference.hplm.int8_scales import INT8_FILE, Int8Scales, supports_int8, uses_int8
from inference.hplm.pets.batch import SegmentPets, SharedPets
from inference.hplm.pets.packed import PackedPet
from inference.hplm.pets.spec import PetSpec
from inference.hplm.root import Root
from inference.hplm.sequences import PackedSequences
from inference.hplm.weight_format import WeightFormat
from tests.unit.families import FAMILIES, published
from tests.unit.tiny import SPECS, tiny_hplm, tiny_texts
from workers.training.int8_ranges import InputRanges

CPU = torch.device("cpu")
pytestmark = [
    pytest.mark.skipif(not supports_int8(CPU), reason="this CPU has no kernels for int8 weights"),
]

WIDE_ERROR = 0.02
"""The relative error of one linear layer of random weights; up to 0.017 was measured."""
STATES_ERROR = {"float32": 0.05, "bfloat16": 0.06}
"""The relative error of the last of two layers of random roots, with and without PETs; up to 0.037 in float32
and 0.042 in bfloat16 was measured."""
GATED_ERROR = 0.01
"""What a gated feed-forward block adds, which multiplies two rounded products; 0.053 was measured in all."""


@torch.no_grad()
def states_of(root: Root, texts: list[str]) -> tuple[Tensor, PackedSequences]:
    """States at the cut [N, d] of the texts."""
    encodings = [root.tokenizer.encode(text) for text in texts]
    sequences = PackedSequences.of([encoding.ids for encoding in encodings])
    ids, types = (
        torch.from_numpy(np.concatenate([getattr(encoding, name) for encoding in encodings]))
        for name in ("ids", "types")
    )
    return root.checkpoint_lower()(ids, sequences, types), sequences


@torch.no_grad()
def scales_of(root: Root) -> Int8Scales:
    """The scales of a root, from texts of its own."""
    ranges = InputRanges()
    root.upper(*states_of(root, tiny_texts(60, seed=7, longest=30)), ranges)
    return ranges.scales(root.config.upper)


def quantized(root: Root, dtype: torch.dtype = torch.float32) -> tuple[UpperLayers, UpperLayers]:
    """The upper layers with float and with int8 weights."""
    scales = scales_of(root)
    upper = UpperLayers(root.config.architecture, root.config.upper)
    upper.load_state_dict(root.upper.state_dict())
    upper.requires_grad_(requires_grad=False).to(dtype)
    return upper, upper.quantized(map(scales.of_layer, range(root.config.upper)))


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found.float() - expected.float()).norm() / expected.float().norm())


def layer(
    inputs: int = 48, outputs: int = 40, *, dtype: torch.dtype = torch.float32
) -> tuple[nn.Linear, Int8Linear]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        source = nn.Linear(inputs, outputs).to(dtype)
    bound = torch.linspace(2, 6, inputs)
    return source, Int8Linear(source, InputScale.of(-bound, bound))


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_is_close_to_float_in_its_number_format(dtype: torch.dtype) -> None:
    source, int8 = layer(dtype=dtype)
    hidden = torch.randn(3, 50, 48, generator=torch.Generator().manual_seed(1)) * torch.linspace(0.7, 2, 48)
    hidden = hidden.to(dtype)
    found = int8(hidden)
    assert found.dtype is dtype
    assert found.shape == (3, 50, 40)
    assert relative_error(found, source(hidden)) < WIDE_ERROR


@torch.no_grad()
def test_columns_of_very_different_size_and_a_range_on_one_side_of_zero_keep_their_precision() -> None:
    source, _ = layer()
    low, high = torch.full((48,), -0.01), torch.logspace(-1, 1.5, 48)
    source.weight.div_(high)  # all columns matter alike
    share = torch.rand(200, 48, generator=torch.Generator().manual_seed(1))
    hidden = HEADROOM * (low + (high - low) * share)
    assert relative_error(Int8Linear(source, InputScale.of(low, high))(hidden), source(hidden)) < WIDE_ERROR


@torch.no_grad()
@pytest.mark.parametrize("sign", [-1, 1])
def test_products_of_the_greatest_numbers_do_not_saturate(sign: int) -> None:
    source = nn.Linear(384, 8)
    source.weight.fill_(0.5)
    source.bias.zero_()
    bound = torch.ones(384)
    int8 = Int8Linear(source, InputScale.of(-bound, bound))
    hidden = torch.full((4, 384), 0.999 * sign * HEADROOM)
    assert relative_error(int8(hidden), source(hidden)) < 0.01


@torch.no_grad()
def test_numbers_outside_the_range_are_clipped() -> None:
    _, int8 = layer()
    hidden = torch.full((1, 48), 1e6)
    assert torch.equal(int8(hidden), int8(hidden * 1e3))
    assert bool(int8(hidden).isfinite().all())


@torch.no_grad()
@pytest.mark.parametrize("overflow", [torch.nan, torch.inf, -torch.inf])
def test_what_is_no_finite_number_is_none_in_the_outputs_of_its_row_alone(overflow: float) -> None:
    _, int8 = layer()
    hidden = torch.randn(5, 48, generator=torch.Generator().manual_seed(1))
    expected = int8(hidden)
    hidden[2, 7] = overflow
    found = int8(hidden)
    assert bool(found[2].isnan().all())
    others = [0, 1, 3, 4]
    assert torch.equal(found[others], expected[others])


@torch.no_grad()
@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 300), first=st.integers(0, 299), seed=st.integers(0, 100))
def test_a_row_has_the_same_bits_alone_and_in_any_company(rows: int, first: int, seed: int) -> None:
    _, int8 = layer()
    hidden = torch.randn(rows, 48, generator=torch.Generator().manual_seed(seed))
    hidden[1:] *= 100
    at = first % rows
    assert torch.equal(int8(hidden)[at], int8(hidden[at : at + 1])[0])


@given(st.integers(1, 10_000))
def test_the_number_of_rows_is_padded_by_little_to_one_of_few(rows: int) -> None:
    padded = padded_rows(rows)
    assert rows <= padded <= max(rows + 31, rows * 9 / 8)
    assert padded_rows(padded) == padded
    assert len({padded_rows(rows) for rows in range(1, 8193)}) < 60


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", [*FAMILIES])
def test_upper_layers_of_every_family_are_close_to_float(
    family: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    published(tmp_path, family)
    root = Root.from_checkpoint(open_checkpoint(tmp_path), lower=2)
    upper, int8 = quantized(root, dtype)
    assert int8.has_int8_weights
    assert not upper.has_int8_weights
    states, sequences = states_of(root, tiny_texts(20))
    found = int8(states, sequences)
    assert found.dtype is int8.dtype is dtype
    error = relative_error(found, upper(states, sequences))
    bound = STATES_ERROR[str(dtype).removeprefix("torch.")]
    assert 0 < error < bound + (GATED_ERROR if root.config.architecture.gated else 0)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pets_of_every_kind_stay_float_on_top(root: Root, dtype: torch.dtype) -> None:
    upper, int8 = quantized(root, dtype)
    states, sequences = states_of(root, tiny_texts(20))
    packed = [PackedPet.of(tiny_hplm(root, spec=spec, seed=at).pet, dtype) for at, spec in enumerate(SPECS)]
    rows = [packed[at % len(packed)] for at in range(20)]
    expected, found = (
        module(states, sequences, SegmentPets.of(rows, sequences.lengths)) for module in (upper, int8)
    )
    assert relative_error(found, expected) < STATES_ERROR[str(dtype).removeprefix("torch.")]
    assert relative_error(found, upper(states, sequences)) > 0.2  # the PETs do show


@torch.no_grad()
@pytest.mark.parametrize("spec", SPECS[:-1])
def test_a_pet_for_all_rows_changes_int8_layers_as_one_for_each_segment(root: Root, spec: PetSpec) -> None:
    _, int8 = quantized(root)
    states, sequences = states_of(root, tiny_texts(6))
    pet = tiny_hplm(root, spec=spec).pet
    shared = int8(states, sequences, SharedPets(pet.weights))
    segments = SegmentPets.of([PackedPet.of(pet, torch.float32)] * 6, sequences.lengths)
    assert relative_error(shared, int8(states, sequences, segments)) < 0.005
    assert relative_error(shared, int8(states, sequences)) > 0.01


def saved(root: Root, folder: Path) -> dict[str, Tensor]:
    """Save the root with its scales; the parts of the scales file."""
    root.save(folder)
    scales_of(root).save(folder)
    return load_file(folder / INT8_FILE)


@torch.no_grad()
def test_a_saved_root_is_quantized_as_the_one_in_memory(root: Root, tmp_path: Path) -> None:
    saved(root, tmp_path)
    again = Root.load(tmp_path)
    scales = again.int8_scales()
    assert scales is not None
    again.quantize(scales)
    states, sequences = states_of(root, tiny_texts(5))
    assert torch.equal(again.upper(states, sequences), quantized(root)[1](states, sequences))


def test_a_root_of_an_earlier_conversion_has_no_scales(root: Root, tmp_path: Path) -> None:
    root.save(tmp_path)
    assert Root.load(tmp_path).int8_scales() is None


DAMAGES = {
    "missing": lambda parts: parts.pop("expand.low"),
    "narrow": lambda parts: parts.update({"output.low": parts["output.low"][:, :5].clone()}),
    "layers": lambda parts: parts.update({"contract.high": parts["contract.high"][:1].clone()}),
    "swapped": lambda parts: parts.update({"attention.low": parts["attention.high"] + 1}),
    "dtype": lambda parts: parts.update({"output.low": parts["output.low"].half()}),
    "negative": lambda parts: parts["unexplained"].fill_(-0.1),
}


@pytest.mark.parametrize("damage", [*DAMAGES])
def test_damaged_scales_are_refused(root: Root, tmp_path: Path, damage: str) -> None:
    parts = saved(root, tmp_path)
    DAMAGES[damage](parts)
    save_file(parts, tmp_path / INT8_FILE)
    with pytest.raises(HplmError) as refusal:
        Root.load(tmp_path).int8_scales()
    assert refusal.value.code == "corrupt_artifact"


AVX2 = {"avx2": True}
VNNI = AVX2 | {"avx512_vnni": True}


@pytest.mark.parametrize(
    ("weights", "unexplained", "capabilities", "dtype", "expected"),
    [
        ("auto", 0.001, VNNI | {"avx512_bf16": True}, torch.bfloat16, False),
        ("auto", 0.001, VNNI | {"amx_bf16": True}, torch.float32, False),
        ("auto", 0.01, VNNI, torch.float32, True),
        ("auto", 0.0101, VNNI, torch.float32, False),
        ("auto", 0.001, AVX2, torch.bfloat16, False),
        ("auto", 0.001, AVX2 | {"avx_vnni": True}, torch.bfloat16, True),
        ("auto", 0.001, VNNI, torch.float16, False),
        ("auto", None, VNNI, torch.float32, False),
        ("int8", 0.5, AVX2, torch.bfloat16, True),
        ("int8", None, AVX2, torch.float32, False),
        ("float", 0.0, VNNI, torch.float32, False),
    ],
)
def test_which_roots_are_served_with_int8_weights(
    weights: str,
    unexplained: float | None,
    capabilities: dict[str, bool],
    dtype: torch.dtype,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    scales = None if unexplained is None else Int8Scales({}, {}, unexplained)
    assert uses_int8(WeightFormat(weights), scales, CPU, dtype) is expected


def test_auto_never_takes_int8_on_a_gpu() -> None:
    assert not uses_int8(WeightFormat.AUTO, Int8Scales({}, {}, 0.0), torch.device("cuda"), torch.float32)


def test_int8_weights_on_a_gpu_are_an_error() -> None:
    with pytest.raises(HplmError, match="int8 weights need a CPU with AVX2"):
        int8_scales.check_int8_support(torch.device("cuda"))
    int8_scales.check_int8_support(CPU)

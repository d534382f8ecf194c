"""One tenant's LoRA and adapters: their factors, their file, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from inference.decoder.lora import DecoderLora
from inference.errors import HplmError
from tests.unit.inference.decoder.loras import SmallDecoder, random_lora

SHAPE = SmallDecoder()
RANKS = {(2, "down"): 1, (1, "query"): 5, (1, "value"): 16, (2, "gate"): 128}
ADAPTED = {**RANKS, (1, "adapter"): 1024, (2, "output_adapter"): 3}


@pytest.fixture
def lora() -> DecoderLora:
    return random_lora(SHAPE, RANKS)


@pytest.fixture
def saved(lora: DecoderLora, tmp_path: Path) -> Path:
    path = tmp_path / "lora.safetensors"
    lora.save(path, SHAPE)
    return path


def test_ranks_may_differ_by_layer_and_projection(lora: DecoderLora) -> None:
    assert {place: a.shape[1] for place, (a, _) in lora.tensors.items()} == RANKS
    assert lora.lowest_layer == 1
    assert lora.bytes == lora.row.nbytes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_stored_lora_is_read_with_the_same_numbers(dtype: torch.dtype, tmp_path: Path) -> None:
    path = tmp_path / "lora.safetensors"
    lora = random_lora(SHAPE, ADAPTED, dtype=dtype)
    lora.save(path, SHAPE)
    read = DecoderLora.load(path, SHAPE)
    assert read.row.dtype == dtype
    assert read.tensors.keys() == lora.tensors.keys()
    for place, (a, b) in lora.tensors.items():
        assert torch.equal(read.tensors[place][0], a)
        assert torch.equal(read.tensors[place][1], b)


def test_a_file_from_before_there_were_adapters_is_read(lora: DecoderLora, saved: Path) -> None:
    ranks = load_file(saved)["ranks"]
    old = ranks[:, : len(SHAPE.projections)].contiguous()
    assert ranks.shape[1] == old.shape[1] + 2
    read = DecoderLora.load(_edited(saved, ranks=old), SHAPE)
    assert (read.layout is lora.layout, read.has_adapters) == (True, False)
    assert torch.equal(read.row, lora.row)


def test_adapters_are_found_beside_lora_and_alone() -> None:
    alone = random_lora(SHAPE, {(1, "output_adapter"): 5})
    assert (alone.has_adapters, alone.lowest_layer) == (True, 1)
    a, b = alone.tensors[1, "output_adapter"]
    assert (a.shape, b.shape) == ((SHAPE.hidden, 5), (5, SHAPE.hidden))
    assert random_lora(SHAPE, ADAPTED).has_adapters


def test_loras_with_factors_of_the_same_shapes_share_a_layout(lora: DecoderLora, saved: Path) -> None:
    assert DecoderLora.load(saved, SHAPE).layout is lora.layout
    assert random_lora(SHAPE, {**RANKS, (0, "up"): 2}).layout is not lora.layout


def test_a_cast_changes_the_dtype_alone(lora: DecoderLora) -> None:
    cast = lora.to("cpu", torch.bfloat16)
    assert cast.bytes == lora.bytes / 2
    for place, (a, b) in lora.tensors.items():
        assert torch.equal(cast.tensors[place][0], a.bfloat16())
        assert torch.equal(cast.tensors[place][1], b.bfloat16())
    assert lora.to("cpu", torch.float32) is lora


def _factors(rank: int = 2) -> tuple[Tensor, Tensor]:
    return torch.randn(SHAPE.hidden, rank), torch.randn(rank, SHAPE.hidden)


def _with(factor: Tensor, value: float) -> Tensor:
    factor[1, 1] = value
    return factor


@pytest.mark.parametrize(
    ("place", "factors", "message"),
    [
        ((0, "lm_head"), _factors(), "unknown projection 'lm_head'"),
        ((3, "query"), _factors(), "the decoder has layers 0 to 2"),
        ((-1, "query"), _factors(), "the decoder has layers 0 to 2"),
        ((0, "key"), _factors(), "shapes (37, 2) and (2, 37); expected (37, rank) and (rank, 41)"),
        ((0, "query"), (torch.randn(37, 2), torch.randn(3, 37)), "shapes (37, 2) and (3, 37)"),
        ((0, "query"), (torch.tensor(1.0), torch.tensor(1.0)), "shapes () and ()"),
        (
            (0, "query"),
            (torch.randn(37, 0), torch.randn(0, 37)),
            "the rank is 0; it must be between 1 and 256",
        ),
        (
            (0, "query"),
            (torch.randn(37, 257), torch.randn(257, 37)),
            "the rank is 257; it must be between 1 and 256",
        ),
        (
            (0, "adapter"),
            (torch.randn(37, 1025), torch.randn(1025, 37)),
            "the rank is 1025; it must be between 1 and 1024",
        ),
        ((0, "query"), (_with(_factors()[0], float("nan")), _factors()[1]), "NaN or infinite"),
        ((0, "query"), (_factors()[0], _with(_factors()[1], float("-inf"))), "NaN or infinite"),
        ((0, "query"), (_factors()[0].int(), _factors()[1]), "the type is torch.int32"),
    ],
)
def test_factors_that_do_not_fit_the_decoder_are_refused(
    place: tuple[int, str], factors: tuple[Tensor, Tensor], message: str
) -> None:
    with pytest.raises(HplmError) as refused:
        DecoderLora.of({(1, "query"): _factors(), place: factors}, SHAPE, "unsupported_adapter")
    assert refused.value.code == "unsupported_adapter"
    assert message in refused.value.message


def test_a_lora_without_factors_is_refused() -> None:
    with pytest.raises(HplmError, match="no projection is changed"):
        DecoderLora.of({}, SHAPE)


def _edited(path: Path, **changes: Any) -> Path:
    stored = {name: value for name, value in {**load_file(path), **changes}.items() if value is not None}
    save_file(stored, path)
    return path


def _ranks(value: int, layers: int = 3, projections: int = 9) -> Tensor:
    return torch.full((layers, projections), value, dtype=torch.int32)


def _adapters(width: int) -> Tensor:
    return torch.cat([_ranks(1, projections=7), _ranks(width, projections=2)], dim=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row": torch.zeros(7)}, "row has shape (7,)"),
        ({"row": torch.zeros(7, dtype=torch.int64)}, "type torch.int64"),
        ({"row": None}, "'row' is missing"),
        ({"code": torch.zeros(1)}, "'code' is missing or unexpected"),
        ({"ranks": _ranks(1, layers=4)}, "ranks has shape (4, 9)"),
        ({"ranks": _ranks(1).view(-1)}, "ranks has shape (27,)"),
        ({"ranks": _ranks(1).float()}, "type torch.float32"),
        ({"ranks": _ranks(-1)}, "ranks of query are -1"),
        ({"ranks": _ranks(257, projections=7)}, "to 257; they must be between 0 and 256"),
        ({"ranks": _adapters(1025)}, "to 1025; they must be between 0 and 1024"),
        ({"ranks": _ranks(0)}, "no projection is changed"),
        ({"ranks": _ranks(2)}, "row has shape"),
    ],
)
def test_a_stored_lora_that_does_not_fit_the_decoder_is_refused(
    saved: Path, changes: dict[str, Tensor | None], message: str
) -> None:
    with pytest.raises(HplmError) as refused:
        DecoderLora.load(_edited(saved, **changes), SHAPE)
    assert refused.value.code == "corrupt_artifact"
    assert message in refused.value.message


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_stored_lora_with_numbers_that_are_not_finite_is_refused(saved: Path, value: float) -> None:
    row = load_file(saved)["row"]
    row[11] = value
    with pytest.raises(HplmError, match="NaN or infinite"):
        DecoderLora.load(_edited(saved, row=row), SHAPE)


def test_a_file_that_is_cut_short_or_absent_is_refused(saved: Path, tmp_path: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-9])
    with pytest.raises(HplmError, match="cannot be read"):
        DecoderLora.load(saved, SHAPE)
    with pytest.raises(HplmError, match="missing"):
        DecoderLora.load(tmp_path / "other.safetensors", SHAPE)

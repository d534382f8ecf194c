import pytest
import torch

from inference.errors import HplmError
from inference.hplm.devices import pick_device, pick_dtype


def test_auto_takes_a_gpu_when_there_is_one() -> None:
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["", "gpu", "meta", "cuda:99", "cpu:x"])
def test_a_device_that_cannot_be_had_is_refused_by_name(name: str) -> None:
    with pytest.raises(HplmError) as caught:
        pick_device(name)
    assert caught.value.code == "invalid_field"


def test_whoever_picks_a_device_attends_without_cudnn() -> None:
    before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        pick_device("cpu")
        assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("float32", torch.float32),
        ("fp32", torch.float32),
        ("bfloat16", torch.bfloat16),
        ("fp16", torch.float16),
    ],
)
def test_a_named_dtype_is_taken_at_its_word(name: str, dtype: torch.dtype) -> None:
    assert pick_dtype(name, torch.device("cpu")) == dtype


def test_auto_takes_bfloat16_only_where_the_processor_multiplies_it() -> None:
    dtype = pick_dtype("auto", torch.device("cpu"))
    native = torch.cpu.get_capabilities()
    assert (dtype == torch.bfloat16) == any(native.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


@pytest.mark.gpu
def test_auto_takes_half_precision_on_an_accelerator_without_bfloat16() -> None:
    major, _ = torch.cuda.get_device_capability(0)
    expected = torch.bfloat16 if major >= 8 else torch.float16
    assert pick_dtype("auto", torch.device("cuda", 0)) == expected


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(HplmError) as caught:
        pick_dtype("int4", torch.device("cpu"))
    assert caught.value.code == "invalid_field"

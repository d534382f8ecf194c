"""Which device and number format a process takes, and which GPUs it sees."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from inference import visible_gpus
from inference.errors import DeviceUnavailableError, HplmError
from inference.hplm.devices import pick_device, pick_dtype, unused_gpu
from inference.visible_gpus import show_one_gpu

TOO_OLD = "The NVIDIA driver on your system is too old (found version 12040).\nUpdate it."


@pytest.fixture
def broken_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with a GPU whose driver is too old for the build of PyTorch."""

    def fail(*_: object) -> Any:
        raise RuntimeError(TOO_OLD)

    monkeypatch.setattr(visible_gpus, "_visible_at_start", None)
    for name in (visible_gpus.VISIBLE_GPUS, visible_gpus.GPU_ORDER):
        monkeypatch.setenv(name, "")  # restored at the end
    monkeypatch.setattr(visible_gpus, "DEVICE_FOLDER", tmp_path)
    monkeypatch.setattr(visible_gpus, "DRIVER_FILE", tmp_path / "version")
    (tmp_path / "nvidia0").touch()
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n")
    monkeypatch.setattr(torch, "__version__", "2.13.0")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_device", fail)


def test_auto_takes_a_gpu_when_there_is_one() -> None:
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["", "gpu", "meta", "cuda:99", "cpu:x", "cuda:x", "cuda:GPU", "auto:1"])
def test_a_device_that_cannot_be_had_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(visible_gpus, "_visible_at_start", "0")
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


def test_a_gpu_that_does_not_work_is_named_with_its_driver_and_the_build_of_pytorch(
    broken_cuda: None, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DeviceUnavailableError) as caught:
        pick_device("cuda")
    assert pick_device("auto") == torch.device("cpu")
    for said in (caught.value.message, caplog.text, unused_gpu("auto")):
        for fact in ("driver is 550.54.15", "PyTorch 2.13.0 is built for CUDA 13.0", "too old (found"):
            assert fact in said
        assert "Update it" not in said


def test_nothing_is_said_of_a_gpu_that_is_not_there_not_wanted_or_hidden(
    broken_cuda: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert unused_gpu("cpu") == ""
    monkeypatch.setattr(visible_gpus, "_visible_at_start", "")
    assert unused_gpu("auto") == ""
    monkeypatch.setattr(visible_gpus, "_visible_at_start", None)
    (tmp_path / "nvidia0").unlink()
    assert unused_gpu("auto") == ""


def test_a_named_gpu_is_the_only_one_and_the_first_of_the_process(
    broken_cuda: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ones = torch.ones

    def seen_by_cuda() -> int:
        return os.environ["CUDA_VISIBLE_DEVICES"].count(",") + 1

    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device_count", seen_by_cuda)
    monkeypatch.setattr(torch, "ones", lambda *shape, device: ones(*shape))
    for _ in range(2):  # the second time, too
        assert pick_device("cuda:3") == torch.device("cuda", 0)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with pytest.raises(HplmError, match="after CUDA had started"):
        pick_device("cuda:3")


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


@pytest.mark.parametrize(
    ("at_start", "name", "visible", "order"),
    [
        (None, "auto", "0", "at start"),
        (None, "cuda:1", "1", "PCI_BUS_ID"),
        (None, "cuda:MIG-GPU-8932f937-d72c/1/2", "MIG-GPU-8932f937-d72c/1/2", "at start"),
        ("2, 3", "cuda:1", "3", "at start"),
        ("GPU-8932f937,GPU-1df0aa21", "cuda:1", "GPU-1df0aa21", "at start"),
        ("2,3", "cuda:GPU-8932f937", "GPU-8932f937", "at start"),
        ("", "auto", "", "at start"),
    ],
)
def test_a_process_sees_the_gpu_that_is_named_or_the_first(
    monkeypatch: pytest.MonkeyPatch, at_start: str | None, name: str, visible: str, order: str
) -> None:
    monkeypatch.setattr(visible_gpus, "_visible_at_start", at_start)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", at_start or "")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "at start")
    for _ in range(2):  # a choice can be repeated
        show_one_gpu(name)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == visible
        assert os.environ["CUDA_DEVICE_ORDER"] == order


def test_an_index_beyond_those_that_the_process_may_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_gpus, "_visible_at_start", "2,3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    with pytest.raises(HplmError, match="'cuda:2' does not exist: CUDA_VISIBLE_DEVICES is '2,3'"):
        show_one_gpu("cuda:2")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"

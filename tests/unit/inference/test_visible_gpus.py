"""Which GPUs a process sees."""

import os

import pytest

from inference import visible_gpus
from inference.errors import HplmError
from inference.visible_gpus import show_one_gpu


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

"""The pretended GPU notes what a GPU would have done, and refuses what a GPU refuses."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.varlen import varlen_attn

from tests.pretended_cuda import pretended_cuda


def test_pageable_copies_and_read_backs_wait_and_pinned_copies_do_not() -> None:
    with pretended_cuda() as cuda:
        host = torch.arange(6.0).view(2, 3)
        there = host.pin_memory().to("cuda", non_blocking=True)
        assert (len(cuda.copies), cuda.waits) == (1, [])
        host.to("cuda", non_blocking=True)
        torch.tensor([1, 2], device="cuda")
        there[torch.tensor([1, 0])]
        assert (len(cuda.copies), len(cuda.waits)) == (4, 3)
        assert all("test_pretended_cuda.py" in copy for copy in cuda.copies)
        cuda.clear()
        assert there.sum().item() == 15
        assert there.tolist() == there.cpu().tolist() == host.tolist()
        assert (len(cuda.copies), len(cuda.waits)) == (3, 3)
        assert cuda.launches == ["sum"]


def test_models_run_there_and_give_the_numbers_of_the_cpu() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8))
    inputs = torch.randn(3, 4)
    expected = model(inputs)
    with pretended_cuda() as cuda, torch.inference_mode():
        moved = model.to("cuda")
        assert {parameter.device for parameter in moved.parameters()} == {torch.device("cuda:0")}
        cuda.clear()
        found = moved(inputs.to("cuda"))
        assert (len(cuda.copies), cuda.launches) == (1, ["addmm", "native_layer_norm"])
        assert torch.equal(found.cpu(), expected)


def test_tensors_of_both_devices_do_not_mix() -> None:
    with pretended_cuda(), pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="cuda") + torch.ones(2)
    with pretended_cuda(), pytest.raises(TypeError, match="numpy"):
        np.asarray(torch.ones(2, device="cuda"))


def test_tensors_made_on_another_device_afterwards_are_made_there() -> None:
    with pretended_cuda(), torch.device("meta"):
        nn.Linear(2, 2)
    with torch.device("meta"):
        assert torch.tensor([1]).device.type == "meta"


def test_threads_see_it_too() -> None:
    with pretended_cuda() as cuda, ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: torch.zeros(2, device="cuda") + 1).result().device.type == "cuda"
        assert cuda.launches == ["zeros", "add"]


@pytest.mark.parametrize(
    ("capability", "dtype", "runs"),
    [
        ((7, 5), torch.float16, False),
        ((8, 0), torch.float32, False),
        ((8, 0), torch.float16, True),
        ((9, 0), torch.bfloat16, True),
    ],
)
def test_flash_attention_needs_ampere_and_half_types(
    capability: tuple[int, int], dtype: torch.dtype, runs: bool
) -> None:
    def attend() -> Tensor:
        states = torch.randn(5, 2, 8, device="cuda").to(dtype)
        ends = torch.tensor([0, 2, 5], dtype=torch.int32, device="cuda")
        found = varlen_attn(states, states, states, ends, ends, 3, 3)
        assert isinstance(found, Tensor)
        return found

    with pretended_cuda(capability):
        assert torch.cuda.is_bf16_supported() is (capability >= (8, 0))
        if runs:
            assert torch.isfinite(attend()).all()
        else:
            with pytest.raises(RuntimeError, match="FlashAttention"):
                attend()


def test_a_lost_device_fails_whatever_asks_for_it() -> None:
    with pretended_cuda(free_bytes=7) as cuda:
        there = torch.ones(2, device="cuda")
        assert torch.cuda.mem_get_info()[0] == 7
        cuda.error = torch.AcceleratorError("CUDA error: unspecified launch failure")
        for use in (lambda: there + 1, there.cpu, torch.cuda.mem_get_info, torch.cuda.synchronize):
            with pytest.raises(torch.AcceleratorError):
                use()


def test_nothing_of_it_is_left() -> None:
    before = torch.cuda.is_available, torch.Tensor.to, torch.tensor
    with pretended_cuda():
        assert torch.cuda.is_available()
    assert (torch.cuda.is_available, torch.Tensor.to, torch.tensor) == before

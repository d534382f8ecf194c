import gc
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from inference.errors import HplmError
from inference.hplm.artifact_files import read_weights, write_weights


def test_reading_weights_again_and_again_keeps_nothing(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    write_weights(file, {f"layer.{number}": torch.ones(4) for number in range(10)})

    def held_after(times: int) -> int:
        for _ in range(times):
            read_weights(file)
        gc.collect()
        return sys.getallocatedblocks()

    held = [held_after(60) for _ in range(5)]
    # Two for each tensor would be 1,200 each time. The process holds more now and then for other threads.
    assert min(after - before for before, after in pairwise(held)) < 400


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("at", [0, 500, 998])
def test_one_number_that_is_not_finite_is_found(
    tmp_path: Path, dtype: torch.dtype, number: float, at: int
) -> None:
    values = torch.linspace(-1, 1, 999).to(dtype)
    write_weights(tmp_path / "good", {"a": values, "none": torch.empty(0, dtype=dtype)})
    assert torch.equal(read_weights(tmp_path / "good")["a"], values)
    values[at] = number
    write_weights(tmp_path / "bad", {"a": values})
    with pytest.raises(HplmError, match="a holds NaN or infinite numbers"):
        read_weights(tmp_path / "bad")

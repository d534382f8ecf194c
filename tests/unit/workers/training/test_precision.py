import pytest
import torch

from workers.training.precision import configure_torch


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float32)],
)
def test_nothing_is_learnt_in_half_precision(precision: str, dtype: torch.dtype) -> None:
    assert configure_torch(device="cpu", precision=precision, seed=0).dtype == dtype

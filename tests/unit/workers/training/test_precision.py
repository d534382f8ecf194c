import pytest
import torch

from tests.pretended_cuda import pretended_cuda
from workers.training.precision import bucket_length, configure_torch, decoder_precision


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float16", torch.float32)],
)
def test_nothing_is_learnt_in_half_precision(precision: str, dtype: torch.dtype) -> None:
    assert configure_torch(device="cpu", precision=precision, seed=0).dtype == dtype


@pytest.mark.parametrize(
    ("device", "precision", "expected"),
    [
        ("cuda", "auto", "auto"),
        ("cuda", "bfloat16", "bfloat16"),
        ("cuda", "float32", "float32"),
        ("auto", "auto", "auto"),
        ("cpu", "auto", "float32"),
        ("cpu", "bfloat16", "float32"),
    ],
)
def test_decoders_train_on_a_gpu_in_what_they_are_served_in_and_on_a_cpu_in_float32(
    monkeypatch: pytest.MonkeyPatch, device: str, precision: str, expected: str
) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pretended_cuda():
        assert decoder_precision(device, precision) == expected


def test_batches_have_few_lengths_on_a_gpu_and_their_own_on_a_cpu() -> None:
    lengths = range(1, 513)
    on_gpu = [bucket_length(length, torch.device("cuda")) for length in lengths]
    assert len(set(on_gpu)) == 32
    assert all(length <= padded < length + 16 for length, padded in zip(lengths, on_gpu, strict=True))
    assert [bucket_length(length, torch.device("cpu")) for length in lengths] == list(lengths)

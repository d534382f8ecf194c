"""Threads, device and precision of a training job."""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from inference.errors import HplmError
from inference.hplm.devices import pick_device, pick_dtype

THREADS = "HMI_TRAIN_THREADS"
CPU = torch.device("cpu")


# Lengths in multiples of this suit tensor cores, and keep the number of shapes small.
_LENGTH_MULTIPLE = 16


@dataclass(frozen=True)
class Precision:
    """The device and dtype of a job: weights stay float32, products are bfloat16 where it is native."""

    device: torch.device
    dtype: torch.dtype

    def autocast(self) -> AbstractContextManager[object]:
        """The context for forward passes."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)


def bucket_length(length: int, device: torch.device, multiple: int = _LENGTH_MULTIPLE) -> int:
    """To how many tokens a batch for `device` is padded: on a GPU to a multiple, so that kernels, their plans
    and blocks of memory are made for few shapes; on a CPU not at all."""
    return -(-length // multiple) * multiple if device.type == "cuda" else length


def decoder_precision(device: str, precision: str) -> str:
    """In what decoders are trained and evaluated, for `configure_torch`: `precision` on a GPU, as they are
    served there; float32 on a CPU."""
    return precision if pick_device(device).type == "cuda" else "float32"


def configure_torch(*, device: str, precision: str, seed: int) -> Precision:
    """Set this process's threads (HMI_TRAIN_THREADS; 0: torch's default) and seed; pick device and dtype.

    `device` and `precision`: "auto" or a name that `pick_device` and `pick_dtype` know; float16 becomes
    float32.
    """
    threads = os.environ.get(THREADS, "") or "0"
    if not threads.isdigit():
        raise HplmError("invalid_field", f"{THREADS} must be a whole number, not {threads!r}.")
    if int(threads):
        torch.set_num_threads(int(threads))
    torch.manual_seed(seed)
    chosen = pick_device(device)
    dtype = pick_dtype(precision, chosen)
    # Gradients underflow in float16, which is for serving.
    return Precision(chosen, torch.float32 if dtype == torch.float16 else dtype)

"""Tells a lost device from other errors of PyTorch. Importing it does not load PyTorch."""

from typing import Final

from inference.errors import DeviceLostError

OUT_OF_MEMORY: Final = 2
"""The code of CUDA's error for memory that is not PyTorch's: of a context, of pinned buffers."""


def raise_if_device_lost(error: BaseException) -> None:
    """Raise DeviceLostError if the error says that the device computes nothing more in this process. Being
    out of memory does not.

    To be called wherever an error is taken for that of one batch, one model or one root.
    """
    if isinstance(error, DeviceLostError):
        raise error
    import torch

    if isinstance(error, torch.AcceleratorError) and getattr(error, "error_code", None) != OUT_OF_MEMORY:
        raise DeviceLostError(str(error)) from error

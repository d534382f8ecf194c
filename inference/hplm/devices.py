"""Selects the device and the dtype."""

import torch

from inference.errors import HplmError

_DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
}


def pick_device(name: str) -> torch.device:
    """The device `name`: "cpu", "cuda", "cuda:1", or "auto" (CUDA if available, else the CPU).

    Turns off cuDNN's attention in this process: it plans each new shape for half a second, and each decoded
    block of tokens is a new shape.

    Raises HplmError(invalid_field) for an unknown name or a GPU that does not exist.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise HplmError("invalid_field", f"unknown device {name!r}") from error
    if device.type not in {"cpu", "cuda"}:
        raise HplmError("invalid_field", f"device {name!r} is neither a CPU nor a CUDA device")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise HplmError(
            "invalid_field", f"device {name!r} does not exist: PyTorch finds {torch.cuda.device_count()} GPUs"
        )
    return device


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """The dtype `name` ("auto", "float32", "bfloat16", "float16") for `device`.

    "auto" is bfloat16 where the hardware supports it natively, else float16 on a GPU and float32 on a CPU.
    """
    if name == "auto":
        if has_native_bfloat16(device):
            return torch.bfloat16
        return torch.float16 if device.type == "cuda" else torch.float32
    if name not in _DTYPES:
        raise HplmError("invalid_field", f"unknown dtype {name!r}; use auto, float32, bfloat16 or float16")
    return _DTYPES[name]


def has_native_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 natively."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # oneDNN also supports bfloat16 by emulation (plain AVX-512), slower than float32.
    supported = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    capabilities = torch.cpu.get_capabilities()
    return supported and any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))

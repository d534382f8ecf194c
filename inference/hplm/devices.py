"""Which device and which precision to compute with."""

import torch

from inference.hplm.errors import HplmError

_DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
}


def pick_device(name: str) -> torch.device:
    """The device called `name`: "auto" (CUDA when there is one, else the CPU), "cpu", "cuda", "cuda:1".

    Raises HplmError(invalid_field) for a name PyTorch does not know or a GPU this machine lacks.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise HplmError("invalid_field", f"unknown device {name!r}") from error
    if device.type not in {"cpu", "cuda"}:
        raise HplmError("invalid_field", f"device {name!r} is neither a CPU nor a CUDA device")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise HplmError("invalid_field", f"device {name!r} was asked for, but PyTorch sees no such GPU here")
    return device


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """The floating type called `name` ("auto", "float32", "bfloat16", "float16") for serving on `device`.

    "auto" is bfloat16 where the hardware multiplies it natively; elsewhere float16 on an accelerator and
    float32 on a CPU.
    """
    if name == "auto":
        if _native_bfloat16(device):
            return torch.bfloat16
        return torch.float16 if device.type == "cuda" else torch.float32
    if name not in _DTYPES:
        raise HplmError("invalid_field", f"unknown dtype {name!r}; use auto, float32, bfloat16 or float16")
    return _DTYPES[name]


def _native_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    # oneDNN also accepts bfloat16 where it must emulate it (plain AVX-512), slower than float32: ask for
    # both.
    accepted = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    capabilities = torch.cpu.get_capabilities()
    return accepted and any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))

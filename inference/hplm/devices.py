"""Selects the device and the dtype."""

import logging

import torch

from inference.errors import DeviceUnavailableError, HplmError
from inference.visible_gpus import DEVICE_NAME, driver_version, has_gpu, show_one_gpu

log = logging.getLogger(__name__)

_DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
}


def pick_device(name: str) -> torch.device:
    """The device `name`: "cpu", "cuda", a GPU by index or UUID ("cuda:1", "cuda:GPU-8932f937"), or "auto"
    (CUDA if available, else the CPU, with a warning if there is a GPU).

    A process that names a GPU sees no other, and this one is its cuda:0 (see `show_one_gpu`). Raises
    HplmError(invalid_field) for an unknown name or a PyTorch without CUDA, DeviceUnavailableError for a GPU
    that cannot be used now.

    Turns off cuDNN's attention in this process: it plans each new shape for half a second, and each decoded
    block of tokens is a new shape.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    if not DEVICE_NAME.fullmatch(name):
        raise HplmError(
            "invalid_field",
            f"unknown device {name!r}; use auto, cpu, cuda, or the index or UUID of a GPU: cuda:1",
        )
    if ":" in name:
        show_one_gpu(name)
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        if problem := unused_gpu(name):
            log.warning("%s", problem)
        return torch.device("cpu")
    if not _is_built_for_gpus():
        raise HplmError("invalid_field", f"device {name!r} does not exist: {_installed()}")
    return _usable_gpu(name)


def unused_gpu(name: str) -> str:
    """Why the device `name`, "auto", is the CPU on a machine with an NVIDIA GPU. Empty if it is not."""
    if name != "auto" or not has_gpu() or torch.cuda.is_available():
        return ""
    return (
        f"The CPU is used: this machine has an NVIDIA GPU, but {_installed()}. {_cuda_error()}Install a "
        "PyTorch for this driver (docs/operations.md, A GPU), or set HMI_DEVICE=cpu."
    )


def _usable_gpu(name: str) -> torch.device:
    """The current GPU, once it has computed something: a lost one is counted, too."""
    try:
        device = torch.device("cuda", torch.cuda.current_device())
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise DeviceUnavailableError(
            f"device {name!r} cannot be used: {_first_line(error)} ({_installed()})"
        ) from error
    if ":" in name and torch.cuda.device_count() != 1:
        raise HplmError("invalid_field", f"device {name!r} was named after CUDA had started in this process")
    return device


def _cuda_error() -> str:
    """What CUDA says against its start, as a sentence. Empty for a PyTorch without CUDA."""
    if not _is_built_for_gpus():
        return ""
    try:
        torch.cuda.current_device()
    except (RuntimeError, AssertionError) as error:
        return f"{_first_line(error).rstrip('.')}. "
    return ""


def _installed() -> str:
    """The build of PyTorch and the version of the driver, in words."""
    if torch.version.cuda:
        build = f"CUDA {torch.version.cuda}"
    else:
        build = f"ROCm {torch.version.hip}" if torch.version.hip else "CPUs only"
    return f"PyTorch {torch.__version__} is built for {build}, and the NVIDIA driver is {driver_version()}"


def _is_built_for_gpus() -> bool:
    return bool(torch.version.cuda or torch.version.hip)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


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

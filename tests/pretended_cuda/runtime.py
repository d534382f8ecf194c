"""Lets PyTorch find the pretended device."""

import importlib.util
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils import _pytree as pytree
from torch.utils._device import _device_constructors

from tests.pretended_cuda.device import (
    CUDA,
    PretendedCuda,
    PretendedCudaMode,
    PretendedTensor,
    activate,
    active,
)


@contextmanager
def pretended_cuda(
    capability: tuple[int, int] = (9, 0), *, free_bytes: int = 130 << 30, total_bytes: int = 140 << 30
) -> Iterator[PretendedCuda]:
    """One GPU of that compute capability and memory, in this thread and in those that it starts."""
    device = PretendedCuda(capability, free_bytes, total_bytes)
    overwrites = torch.__future__.get_overwrite_module_params_on_conversion()
    with ExitStack() as stack:
        stack.callback(activate(device))
        # `with torch.device("meta")` keeps the functions that make tensors, and would keep the patched ones.
        stack.callback(_device_constructors.cache_clear)
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        stack.callback(torch.__future__.set_overwrite_module_params_on_conversion, overwrites)
        for target, name, value in _patches(device):
            stack.enter_context(patch.object(target, name, value))
        stack.enter_context(PretendedCudaMode())  # type: ignore[no-untyped-call]
        yield device


class _Event:
    def __init__(self, *_: Any, **__: Any) -> None:
        """Arguments as those of `torch.cuda.Event`."""

    def record(self, stream: object = None) -> None:
        active().check()

    def wait(self, stream: object = None) -> None:
        active().check()

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        active().wait("an event")

    def elapsed_time(self, _end: object) -> float:
        return 0.0


class _Stream:
    def __init__(self, *_: Any, **__: Any) -> None:
        """Arguments as those of `torch.cuda.Stream`."""

    def record_event(self, event: _Event | None = None) -> _Event:
        active().check()
        return event or _Event()

    def wait_event(self, event: _Event) -> None:
        active().check()

    def wait_stream(self, stream: "_Stream") -> None:
        active().check()

    def synchronize(self) -> None:
        active().wait("a stream")


def _patches(device: PretendedCuda) -> Iterator[tuple[Any, str, Any]]:
    default = _Stream()

    def memory(*_: object) -> tuple[int, int]:
        device.check()
        return device.free_bytes, device.total_bytes

    functions: dict[str, Callable[..., Any]] = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda _device: None,
        "current_stream": lambda _device=None: default,
        "default_stream": lambda _device=None: default,
        "stream": _within,
        "device": _within,
        "synchronize": lambda _device=None: device.wait("synchronize"),
        "mem_get_info": memory,
        "memory_allocated": lambda _device=None: device.total_bytes - device.free_bytes,
        "empty_cache": lambda: None,
        "get_device_name": lambda _device=None: "pretended GPU",
        "get_device_capability": lambda _device=None: device.capability,
        "get_device_properties": lambda _device=None: _properties(device),
        "is_bf16_supported": lambda including_emulation=True: device.capability >= (8, 0),
        "manual_seed": lambda _seed: None,
        "manual_seed_all": lambda _seed: None,
        "get_rng_state": lambda _device=None: torch.get_rng_state(),
        "set_rng_state": lambda _state, _device=None: None,
        "Stream": _Stream,
        "Event": _Event,
    }
    yield from ((torch.cuda, name, value) for name, value in functions.items())
    yield torch.version, "cuda", "13.0"
    yield Tensor, "to", _to_numbered(Tensor.to)
    yield torch, "tensor", _made_on_host(torch.tensor)
    yield torch, "as_tensor", _made_on_host(torch.as_tensor)
    yield torch, "rms_norm", _fused("rms_norm", torch.rms_norm)
    attention = functional.scaled_dot_product_attention
    yield functional, "scaled_dot_product_attention", _fused("scaled_dot_product_attention", attention)
    # Views of tensors that were made in inference mode do not reach the device as such.
    yield torch.inference_mode, "__enter__", _enter_without_gradients
    yield torch.inference_mode, "__exit__", _exit_without_gradients
    run = threading.Thread.run

    def run_on_device(thread: threading.Thread) -> None:
        with PretendedCudaMode():  # type: ignore[no-untyped-call]
            run(thread)

    yield threading.Thread, "run", run_on_device
    if importlib.util.find_spec("triton") is not None:
        from triton.runtime.interpreter import InterpretedFunction

        yield InterpretedFunction, "run", _interpreted(InterpretedFunction.run)


def _within(_stream_or_device: object) -> AbstractContextManager[None]:
    return nullcontext()


def _properties(device: PretendedCuda) -> SimpleNamespace:
    major, minor = device.capability
    return SimpleNamespace(name="pretended GPU", total_memory=device.total_bytes, major=major, minor=minor)


def _to_numbered(to: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A build of PyTorch without CUDA does not know which device is the current one."""

    def numbered(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return to(tensor, *map(_numbered, args), **{key: _numbered(value) for key, value in kwargs.items()})

    return numbered


def _numbered(argument: Any) -> Any:
    if isinstance(argument, str | torch.device):
        device = torch.device(argument)
        return CUDA if device == torch.device("cuda") else device
    return argument


def _made_on_host(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`torch.tensor` makes a tensor on the host and copies it."""

    def made(data: Any, *, device: Any = None, pin_memory: bool = False, **options: Any) -> Tensor:
        if isinstance(data, PretendedTensor):
            return data.to(device=device, dtype=options.get("dtype"))
        tensor = make(data, **options)
        tensor = tensor.pin_memory() if pin_memory else tensor
        return tensor if device is None else tensor.to(device)

    return made


def _fused(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """One launch, where it has a kernel of its own on a GPU and, perhaps, none on a CPU."""

    def fused(*args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        if torch.is_grad_enabled() or not any(isinstance(leaf, PretendedTensor) for leaf in leaves):
            return compute(*args, **kwargs)
        active().check()
        return active().launch(name, compute, *args, **kwargs)

    return fused


def _interpreted(run: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of Triton, interpreted."""

    def launch(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        if not any(isinstance(leaf, PretendedTensor) for leaf in leaves):
            return run(kernel, *args, **kwargs)
        active().check()
        return active().launch(kernel.__name__, run, kernel, *args, **kwargs)

    return launch


def _enter_without_gradients(mode: Any) -> None:
    mode.pretended = torch.no_grad()
    mode.pretended.__enter__()


def _exit_without_gradients(mode: Any, *error: Any) -> None:
    mode.pretended.__exit__(*error)

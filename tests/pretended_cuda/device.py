"""The pretended device: its tensors, and what their operations cost."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

CUDA: Final = torch.device("cuda:0")
HERE: Final = str(Path(__file__).parent)
WITHOUT_LAUNCH: Final = {
    "alias", "detach", "empty", "empty_like", "empty_strided", "lift_fresh", "new_empty", "new_empty_strided",
    "resize_", "set_", "_fused_sdp_choice", "_local_scalar_dense", "_reshape_alias", "_unsafe_view",
}  # fmt: skip
WITH_WAIT: Final = {
    "bincount", "equal", "masked_select", "nonzero", "unique_consecutive", "unique_dim", "_unique",
    "_unique2",
}  # fmt: skip
INDEXING: Final = {"index", "index_put", "index_put_", "_index_put_impl_"}


@dataclass(eq=False)
class PretendedCuda:
    """What was done on the device since `clear`: copies between it and the host, waits of the host for it,
    and launches, an operation each. Copies and waits name the line of the project they come from.

    error: what each operation and each question about free memory raises, if set, as a lost device does.
    """

    capability: tuple[int, int] = (9, 0)
    free_bytes: int = 130 << 30
    total_bytes: int = 140 << 30
    error: Exception | None = None
    copies: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    launches: list[str] = field(default_factory=list)
    _pinned: dict[int, object] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget what was done so far."""
        for notes in (self.copies, self.waits, self.launches):
            notes.clear()

    def check(self) -> None:
        """Raise the device's error, if it has one."""
        if self.error is not None:
            raise self.error

    def wait(self, reason: str) -> None:
        """Note that the host waits."""
        self.check()
        self.waits.append(f"{reason} at {_caller()}")

    def launch(self, name: str, compute: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What ``compute`` gives of the tensors' content, as one launch."""
        self.launches.append(name)
        return _compute(compute, args, kwargs)

    def upload(self, source: Tensor, *, non_blocking: bool, **options: Any) -> Tensor:
        """A copy of a tensor of the host on the device."""
        self._note_upload(source, non_blocking=non_blocking)
        return _there(_compute(torch.ops.aten._to_copy.default, (source,), options))

    def download(self, source: Tensor, dtype: torch.dtype | None, *, non_blocking: bool) -> Tensor:
        """A copy of a tensor of the device on the host."""
        self._note_download(source, non_blocking=non_blocking)
        with torch._C._DisableTorchDispatch():
            return source.detach().clone() if dtype is None else source.detach().clone().to(dtype)

    def run(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What an operator of PyTorch gives on the device of its tensors."""
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        name, device = operator._schema.name.rpartition("::")[2], kwargs.get("device")
        is_there = any(isinstance(tensor, PretendedTensor) for tensor in tensors)
        if not is_there and (device is None or torch.device(device).type != "cuda"):
            return self._on_host(name, operator, args, kwargs)
        self.check()
        options = {key: value for key, value in kwargs.items() if key not in ("device", "pin_memory")}
        if name in ("_to_copy", "copy_"):
            return self._copy(name, operator, args, options)
        if name in ("is_pinned", "record_stream"):
            return False if name == "is_pinned" else None
        if name == "_local_scalar_dense":
            self._note_download(args[0], non_blocking=False)
        elif name in INDEXING:
            self._check_indices(name, args)
        elif name == "_varlen_attn":
            return self.launch(name, self._varlen_attention, *args, **options)
        else:
            _check_device(name, tensors)
        if name in WITH_WAIT:
            self.wait(name)
        if not _is_view(operator) and name not in WITHOUT_LAUNCH:
            self.launches.append(name)
        return _compute(operator, args, options | ({} if device is None else {"device": "cpu"}))

    def _on_host(self, name: str, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if name == "is_pinned":
            return self._is_pinned(args[0])
        if name == "_pin_memory":
            return self._pin(args[0].clone())
        if kwargs.get("pin_memory"):
            return self._pin(operator(*args, **{**kwargs, "pin_memory": False}))
        return operator(*args, **kwargs)

    def _copy(self, name: str, operator: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        source = args[0] if name == "_to_copy" else args[1]
        non_blocking = bool(options.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2]))
        if name == "_to_copy" and not isinstance(source, PretendedTensor):
            return self.upload(source, **{**options, "non_blocking": non_blocking})
        if name == "copy_" and not isinstance(args[0], PretendedTensor):
            self._note_download(source, non_blocking=non_blocking and self._is_pinned(args[0]))
            _compute(operator, args, options)
            return args[0]
        if not isinstance(source, PretendedTensor) and source.dim():  # a number is no copy
            self._note_upload(source, non_blocking=non_blocking)
        else:
            self.launches.append(name)
        return _compute(operator, args, options)

    def _note_upload(self, source: Tensor, *, non_blocking: bool) -> None:
        self.check()
        kind = "pinned" if self._is_pinned(source) else "pageable"
        note = f"{source.nbytes} {kind} bytes to the device"
        self.copies.append(f"{note} at {_caller()}")
        if not (non_blocking and kind == "pinned"):
            self.wait(note)

    def _note_download(self, source: Tensor, *, non_blocking: bool) -> None:
        self.check()
        note = f"{source.nbytes} bytes to the host"
        self.copies.append(f"{note} at {_caller()}")
        if not non_blocking:
            self.wait(note)

    def _pin(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        self._pinned[storage.data_ptr()] = storage  # kept, so that its address stays its own
        return tensor

    def _is_pinned(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._pinned

    def _check_indices(self, name: str, args: Sequence[Any]) -> None:
        for index in args[1]:
            if index is None:
                continue
            if not isinstance(index, PretendedTensor):
                self._note_upload(index, non_blocking=False)
            if index.dtype in (torch.bool, torch.uint8):
                self.wait(f"{name} by a mask")
        _check_device(name, [args[0], *args[2:3]])

    def _varlen_attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_ends: Tensor,
        key_ends: Tensor,
        longest_query: int,
        longest_key: int,
        is_causal: bool = False,
        scale: float | None = None,
        window_size: Sequence[int] | None = None,
        enable_gqa: bool = False,
        *_: Any,
        **__: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attention of packed sequences, with the limits of FlashAttention."""
        if self.capability < (8, 0):
            raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.")
        if query.dtype not in (torch.float16, torch.bfloat16):
            raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
        mixed = torch.empty_like(query)
        own, theirs = query_ends.detach().tolist(), key_ends.detach().tolist()
        for begin, end, first, last in zip(own, own[1:], theirs, theirs[1:], strict=False):
            q, k, v = (
                states[part].transpose(0, 1).float()[None]
                for states, part in (
                    (query, slice(begin, end)),
                    (key, slice(first, last)),
                    (value, slice(first, last)),
                )
            )
            mask = None
            if window_size is not None and min(window_size) > 0:
                distance = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
                mask = (distance <= window_size[0]) & (-distance <= window_size[1])
            found = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
            )
            mixed[begin:end] = found[0].transpose(0, 1)
        return mixed, query.new_empty(0), query.new_empty(0)


class PretendedTensor(Tensor):
    """A tensor of the pretended device, whose content lies in the host's memory."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return active().run(func, args, kwargs or {})

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return CUDA

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        if args and isinstance(args[0], Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        copy = kwargs.pop("copy", False)
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        if device is not None and device.type == "cpu":
            return active().download(self, dtype, non_blocking=non_blocking)
        return super().to(dtype=self.dtype if dtype is None else dtype, copy=copy)

    def cpu(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.to("cpu")

    def tolist(self) -> Any:
        return self.to("cpu").tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy

    def record_stream(self, stream: object) -> None:
        """Nothing: its memory is the host's."""

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        with torch._C._DisableTorchDispatch():
            return f"PretendedTensor({self.detach().clone()!r})"


class PretendedCudaMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sends all operations of a thread to the device, also those that create its tensors."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return active().run(func, args, kwargs or {})


_devices: list[PretendedCuda] = []


def active() -> PretendedCuda:
    """The device of the surrounding `pretended_cuda`."""
    assert _devices, "a tensor of the pretended device is used outside of pretended_cuda()"
    return _devices[-1]


def activate(device: PretendedCuda) -> Callable[[], object]:
    """Make the device the active one; returns what ends that."""
    _devices.append(device)
    return _devices.pop


def _compute(compute: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What it gives of the tensors' content; new tensors are on the device."""
    with torch._C._DisableTorchDispatch():
        found = compute(*args, **kwargs)
    return pytree.tree_map_only(Tensor, _there, found)


def _there(tensor: Tensor) -> Tensor:
    if isinstance(tensor, PretendedTensor):
        return tensor
    made: Tensor = torch.Tensor._make_subclass(PretendedTensor, tensor)
    return made


def _check_device(name: str, tensors: Sequence[Any]) -> None:
    for tensor in tensors:
        if isinstance(tensor, Tensor) and not isinstance(tensor, PretendedTensor) and tensor.dim():
            raise RuntimeError(
                f"Expected all tensors to be on the same device: {name} at {_caller()} got one of the CPU, "
                f"{tuple(tensor.shape)}"
            )


def _is_view(operator: Any) -> bool:
    schema = operator._schema
    aliases = [result.alias_info for result in schema.returns]
    written = [argument.alias_info for argument in schema.arguments]
    return any(alias is not None and not alias.is_write for alias in aliases) and not any(
        alias is not None and alias.is_write for alias in written
    )


def _caller() -> str:
    """The line of the project that is at work."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if "site-packages" not in file and not file.startswith((HERE, "<")) and "/lib/python" not in file:
            return f"{Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return "?"

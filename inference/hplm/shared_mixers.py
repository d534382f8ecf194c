"""Context mixers that several tables have in common are kept once for each device and dtype.

Every table of a root holds a copy of the root's mixer. As one object it takes its memory once, and
computes the texts of all domains of a batch together.
"""

import copy
import hashlib
from collections.abc import Mapping
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
from torch import Tensor

from inference.hplm.context_mixer import ContextMixer

Key = tuple[bytes, torch.device, torch.dtype]

_mixers: WeakValueDictionary[Key, ContextMixer] = WeakValueDictionary()
_contents: WeakKeyDictionary[ContextMixer, bytes] = WeakKeyDictionary()
"""The digest of the tensors that a mixer was read from."""


def shared_mixer(tensors: Mapping[str, Tensor]) -> ContextMixer:
    """The mixer of these tensors, which are on the CPU; frozen, float32. Equal tensors give one object as
    long as it is used.

    Raises what `ContextMixer.from_tensors` does.
    """
    content = _content(tensors)
    key = content, torch.device("cpu"), torch.float32
    return _mixers.get(key) or _keep(key, ContextMixer.from_tensors(tensors))


def mixer_on(
    mixer: ContextMixer, device: torch.device | str, dtype: torch.dtype | None = None
) -> ContextMixer:
    """A copy of a mixer on ``device`` in ``dtype`` (default: its own). That of a shared one is shared."""
    device, dtype = torch.device(device), dtype or mixer.dtype
    if (mixer.device, mixer.dtype) == (device, dtype):
        return mixer
    content = _contents.get(mixer)
    if content is None:
        return copy.deepcopy(mixer).to(device, dtype)
    key = content, device, dtype
    return _mixers.get(key) or _keep(key, copy.deepcopy(mixer).to(device, dtype))


def _keep(key: Key, mixer: ContextMixer) -> ContextMixer:
    _contents[mixer] = key[0]
    return _mixers.setdefault(key, mixer)


def _content(tensors: Mapping[str, Tensor]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.digest()

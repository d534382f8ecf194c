"""One model as the engine keeps it: on the host, ready to be put beside others."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from inference.engine.slab import DamagedSlotError
from inference.errors import HplmError
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.pets import PackedPet, PetLayout, UpperShape

ALIGNED = 64
_LENGTH = np.dtype("<u4")


@dataclass(frozen=True, slots=True, eq=False)
class PackedHplm:
    """What a batch needs of a model. Its PET lies in the number format of the upper layers, its head in fp32.
    At rest it takes nothing of the device."""

    pet: PackedPet
    head: Head

    @classmethod
    def of(cls, hplm: Hplm, dtype: torch.dtype) -> "PackedHplm":
        """A copy of the model."""
        return cls(PackedPet.of(hplm.pet, dtype), hplm.head.to("cpu"))

    @property
    def shape(self) -> UpperShape:
        """Of the upper layers that it was made for."""
        return self.pet.layout.shape

    def content(self) -> list[memoryview]:
        """As it is stored: what it is as JSON, behind the length of that; its head; the rows of its PET."""
        about = {
            "pooling": self.head.pooling,
            "outputs": self.head.num_labels,
            "width": self.head.weight.shape[1],
            "activation": self.head.activation,
            **self.pet.layout.to_json(),
        }
        told = json.dumps(about).encode()
        told += b" " * (-(_LENGTH.itemsize + len(told)) % ALIGNED)
        length = np.array(len(told), _LENGTH).tobytes()
        tensors = (*self.head.tensors().values(), self.pet.rows)
        return [memoryview(length + told), *map(_bytes_of, tensors)]

    @classmethod
    def mapped(cls, content: memoryview, dtype: torch.dtype) -> "PackedHplm":
        """Of what `content` gave, where it lies, without copies. Raises DamagedSlotError where that is
        something else."""
        try:
            end = _LENGTH.itemsize + int(np.frombuffer(content[: _LENGTH.itemsize], _LENGTH)[0])
            about = json.loads(bytes(content[_LENGTH.itemsize : end]))
            layout, outputs, width = PetLayout.from_json(about), about["outputs"], about["width"]
            activation = about.get("activation")
            parts: dict[str, tuple[int, ...]] = {"weight": (outputs, width), "bias": (outputs,)}
            if activation:
                parts |= {"inner_weight": (width, width), "inner_bias": (width,)}
            shapes = (*parts.values(), (layout.shape.layers, layout.width))
            *views, rows = _views(content, end, shapes, (*[torch.float32] * len(parts), dtype))
            head = Head.from_tensors(dict(zip(parts, views, strict=True)), about["pooling"], activation)
            return cls(PackedPet(layout, rows), head)
        except (HplmError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError) as error:
            raise DamagedSlotError(f"the content of a slot is no model: {error}") from error


def _bytes_of(tensor: Tensor) -> memoryview:
    return memoryview(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)


def _views(
    content: memoryview, at: int, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype]
) -> list[Tensor]:
    """Tensors that lie one behind the other, from byte `at` to the end."""
    found = []
    for shape, dtype in zip(shapes, dtypes, strict=True):
        count = math.prod(shape)
        found.append(_view(content, at, dtype, count).view(shape))
        at += count * dtype.itemsize
    if at != len(content):
        raise ValueError(f"{len(content)} bytes, not {at}")
    return found


def _view(content: memoryview, at: int, dtype: torch.dtype, count: int) -> Tensor:
    # PyTorch cannot map nothing: the rows of a model that changes nothing in the layers.
    return (
        torch.frombuffer(content, dtype=dtype, count=count, offset=at)
        if count
        else torch.empty(0, dtype=dtype)
    )

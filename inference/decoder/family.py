"""A family of decoder checkpoints: the names of its tensors, and its config.json."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from inference.decoder.architecture import DecoderArchitecture
from inference.errors import HplmError


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderFamily:
    """A family of checkpoints: how its tensors are named and stored, and how its config.json is read.

    prefix: of the tensors of a checkpoint with a head. layer: prefix of a layer, with `{}` for its index.
    layer_names, other_names: from our names to the checkpoint's. fused: modules of the checkpoint that hold
    several of ours, one after another. buffers: modules of a layer that hold no weights. transposed: whether
    projections are stored as [in, out]. parse: the architecture of a config.json.
    """

    name: str
    prefix: str
    layer: str
    layer_names: Mapping[str, str]
    other_names: Mapping[str, str]
    parse: Callable[[Mapping[str, Any]], DecoderArchitecture]
    fused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    buffers: tuple[str, ...] = ()
    transposed: bool = False

    def canonical(
        self, weights: Mapping[str, Tensor], architecture: DecoderArchitecture
    ) -> dict[str, Tensor]:
        """The weights of the decoder by our names, as views of the checkpoint's. Others are left out, and so
        is the head if it is tied to the embedding. Raises HplmError(unsupported_checkpoint) for unknown parts
        of layers."""
        others = {theirs: ours for ours, theirs in self.other_names.items()}
        in_layer = {theirs: (ours,) for ours, theirs in self.layer_names.items()} | dict(self.fused)
        pattern = re.compile(re.escape(self.layer).replace(r"\{\}", r"(\d+)") + r"(.+)\.(weight|bias)")
        found: dict[str, Tensor] = {}
        for name, value in weights.items():
            stripped = name.removeprefix(self.prefix)
            match = pattern.fullmatch(stripped)
            if stripped in others:
                found[others[stripped]] = value
            elif match and match[2] not in self.buffers:
                if match[2] not in in_layer:
                    raise HplmError(
                        "unsupported_checkpoint", f"{name} is no part of the layers of {self.name}"
                    )
                parts = self._split(in_layer[match[2]], value, architecture, name)
                found |= {f"layers.{match[1]}.{ours}.{match[3]}": part for ours, part in parts.items()}
        if architecture.tied:
            found.pop("head.weight", None)
        return found

    def _split(
        self, names: tuple[str, ...], value: Tensor, architecture: DecoderArchitecture, source: str
    ) -> dict[str, Tensor]:
        """The parts of a stored tensor by their names, each [out, in] or [out]."""
        if self.transposed and value.dim() == 2:
            value = value.t()
        if len(names) == 1:
            return {names[0]: value}
        sizes = [architecture.projection_shape(name)[1] for name in names]
        if value.dim() == 0 or len(value) != sum(sizes):
            raise HplmError(
                "unsupported_checkpoint",
                f"{source} has the shape {list(value.shape)}, not {sum(sizes)} outputs",
            )
        return dict(zip(names, torch.split(value, sizes), strict=True))

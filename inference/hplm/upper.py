"""The upper layers: shared by all tenants, computed once for a batch that mixes them (paper section
3.3.2)."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from inference.hplm.architecture import Architecture
from inference.hplm.block import NO_PETS, build_blocks
from inference.hplm.pet_batch import Pets
from inference.hplm.weights import fill, freeze, numbered, read_weights, unfilled, widen, write_weights


class UpperLayers(nn.Module):
    """The last `count` layers of the root, frozen."""

    def __init__(self, shape: Architecture, count: int) -> None:
        super().__init__()
        self.layers = build_blocks(shape, count)

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def step(self, index: int, hidden: Tensor, mask: Tensor, pets: Pets | None) -> Tensor:
        """Upper layer `index` alone, as the PETs change it; [B, T, d] to [B, T, d]."""
        result: Tensor = self.layers[index](hidden, mask, NO_PETS if pets is None else pets.layer(index))
        return result

    def forward(
        self,
        hidden: Tensor,
        mask: Tensor,
        pets: Pets | None = None,
        before: Callable[[int], None] = lambda _: None,
    ) -> Tensor:
        """Final states [B, T, d] of token states [B, T, d] at the cut; `mask` [B, T] bool (true: a token).

        `hidden` is cast to the layers' own type. What comes out where `mask` is false means nothing.
        `before` is told the index of each layer when its turn comes.
        """
        hidden = hidden.to(self.dtype)
        for index in range(len(self.layers)):
            before(index)
            hidden = self.step(index, hidden, mask, pets)
        return hidden

    @classmethod
    def from_checkpoint(cls, shape: Architecture, weights: Mapping[str, Tensor], lower: int) -> "UpperLayers":
        """The layers above the first `lower` of a checkpoint's weights, fp32."""
        module = cls(shape, shape.layers - lower)
        fill(module, numbered(weights, lower, shape.layers), "the checkpoint", "unsupported_checkpoint")
        freeze(module)
        return module

    def save(self, path: Path) -> None:
        """Write the weights to a safetensors file."""
        write_weights(path, self.state_dict())

    @classmethod
    def load(
        cls, path: Path, shape: Architecture, count: int, device: torch.device, dtype: torch.dtype
    ) -> "UpperLayers":
        """Read what `save` wrote; frozen."""
        module = unfilled(lambda: cls(shape, count))
        fill(module, widen(read_weights(path)), path.name)
        freeze(module)
        return module.to(device=device, dtype=dtype)

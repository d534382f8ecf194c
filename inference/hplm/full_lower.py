"""The checkpoint's own lower layers, seeing the whole text: what a PLOT approximates."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from inference.hplm.architecture import Architecture
from inference.hplm.block import Embeddings, build_blocks
from inference.hplm.weights import (
    fill,
    freeze,
    numbered,
    read_weights,
    select,
    unfilled,
    widen,
    write_weights,
)


class FullLower(nn.Module):
    """Embeddings and the first `count` layers, with full context."""

    def __init__(self, shape: Architecture, count: int) -> None:
        super().__init__()
        self.shape = shape
        self.embeddings = Embeddings(shape)
        self.layers = build_blocks(shape, count)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
        """Hidden states [B, T, d] at the cut, of `ids` [B, T] int64, `mask` [B, T] bool (true: a token) and
        `types` [B, T] int64 (default: zeros)."""
        hidden: Tensor = self.embeddings(ids, types)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return hidden

    @property
    def word_embeddings(self) -> Tensor:
        """The embedding of each token of the vocabulary, [V, e]."""
        return self.embeddings.words.weight

    @classmethod
    def from_checkpoint(cls, shape: Architecture, weights: Mapping[str, Tensor], count: int) -> "FullLower":
        """The untouched lower layers of a checkpoint's weights, frozen, fp32."""
        module = cls(shape, count)
        embeddings = {f"embeddings.{name}": value for name, value in select(weights, "embeddings.").items()}
        wanted = embeddings | numbered(weights, 0, count)
        fill(module, wanted, "the checkpoint", "unsupported_checkpoint")
        freeze(module)
        return module

    def save(self, path: Path) -> None:
        """Write the weights to a safetensors file."""
        write_weights(path, self.state_dict())

    @classmethod
    def load(
        cls,
        path: Path,
        shape: Architecture,
        count: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "FullLower":
        """Read what `save` wrote; frozen."""
        module = unfilled(lambda: cls(shape, count))
        fill(module, widen(read_weights(path)), path.name)
        freeze(module)
        return module.to(device=device, dtype=dtype)

"""The upper layers: shared by all tenants, computed once for a batch that mixes them (paper section
3.3.2)."""

from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import BertConfig

from inference.hplm.adapters import BatchedAdapters
from inference.hplm.bert import (
    attention_block,
    attention_mask,
    build_layers,
    feed_forward_block,
    freeze,
    load_weights,
    select,
)
from inference.hplm.checkpoint import Checkpoint
from inference.hplm.weights import read_weights, widen, write_weights


class UpperLayers(nn.Module):
    """The last `count` layers of the root, frozen."""

    def __init__(self, bert: BertConfig, count: int) -> None:
        super().__init__()
        self.bert = bert
        self.layers = build_layers(bert, count)

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def step(self, index: int, hidden: Tensor, mask: Tensor, adapters: BatchedAdapters | None) -> Tensor:
        """Upper layer `index` alone, with the adapters behind its attention block; [B, T, d] to [B, T, d]."""
        layer = self.layers[index]
        attended = attention_block(layer, hidden, attention_mask(mask))
        if adapters is not None:
            attended = adapters.apply(index, attended)
        return feed_forward_block(layer, attended)

    def forward(self, hidden: Tensor, mask: Tensor, adapters: BatchedAdapters | None = None) -> Tensor:
        """Final states [B, T, d] of token states [B, T, d] at the cut; `mask` [B, T] bool (true: a token).

        `hidden` is cast to the layers' own type. What comes out where `mask` is false means nothing.
        """
        hidden = hidden.to(self.dtype)
        for index in range(len(self.layers)):
            hidden = self.step(index, hidden, mask, adapters)
        return hidden

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, lower: int) -> "UpperLayers":
        """The checkpoint's layers above the first `lower`, fp32."""
        count = checkpoint.config.num_hidden_layers - lower
        module = cls(checkpoint.config, count)
        wanted = {
            f"layers.{index}.{name}": value
            for index in range(count)
            for name, value in select(checkpoint.weights, f"encoder.layer.{lower + index}.").items()
        }
        load_weights(module, wanted, "the checkpoint", "unsupported_checkpoint")
        freeze(module)
        return module

    def save(self, path: Path) -> None:
        """Write the weights to a safetensors file."""
        write_weights(path, self.state_dict())

    @classmethod
    def load(
        cls, path: Path, bert: BertConfig, count: int, device: torch.device, dtype: torch.dtype
    ) -> "UpperLayers":
        """Read what `save` wrote; frozen."""
        module = cls(bert, count)
        load_weights(module, widen(read_weights(path)), path.name)
        freeze(module)
        return module.to(device=device, dtype=dtype)

"""The checkpoint's own lower layers, seeing the whole text: what a PLOT approximates."""

from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import BertConfig

from inference.hplm.bert import (
    attention_block,
    attention_mask,
    build_embeddings,
    build_layers,
    feed_forward_block,
    freeze,
    load_weights,
    select,
)
from inference.hplm.checkpoint import Checkpoint
from inference.hplm.weights import read_weights, widen, write_weights


class FullLower(nn.Module):
    """Embeddings and the first `count` layers, with full context."""

    def __init__(self, bert: BertConfig, count: int) -> None:
        super().__init__()
        self.bert = bert
        self.embeddings = build_embeddings(bert)
        self.layers = build_layers(bert, count)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Hidden states [B, T, d] at the cut, of `ids` [B, T] int64 and `mask` [B, T] bool (true: a
        token)."""
        hidden: Tensor = self.embeddings(input_ids=ids)
        attend = attention_mask(mask)
        for layer in self.layers:
            hidden = feed_forward_block(layer, attention_block(layer, hidden, attend))
        return hidden

    @property
    def word_embeddings(self) -> Tensor:
        """The embedding of each token of the vocabulary, [V, d]."""
        weight: Tensor = self.embeddings.word_embeddings.weight
        return weight

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, count: int) -> "FullLower":
        """The untouched lower layers of a checkpoint, frozen, fp32."""
        module = cls(checkpoint.config, count)
        wanted = {
            f"embeddings.{name}": value for name, value in select(checkpoint.weights, "embeddings.").items()
        }
        for index in range(count):
            for name, value in select(checkpoint.weights, f"encoder.layer.{index}.").items():
                wanted[f"layers.{index}.{name}"] = value
        load_weights(module, wanted, "the checkpoint", "unsupported_checkpoint")
        freeze(module)
        return module

    def save(self, path: Path) -> None:
        """Write the weights to a safetensors file."""
        write_weights(path, self.state_dict())

    @classmethod
    def load(
        cls,
        path: Path,
        bert: BertConfig,
        count: int,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> "FullLower":
        """Read what `save` wrote; frozen."""
        module = cls(bert, count)
        load_weights(module, widen(read_weights(path)), path.name)
        freeze(module)
        return module.to(device=device, dtype=dtype)

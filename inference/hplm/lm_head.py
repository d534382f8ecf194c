"""The language model head of a root: needed only to further-pretrain on it."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.activations import activation
from inference.hplm.architecture import Architecture
from inference.hplm.weights import fill, read_weights, select, widen, write_weights


class LmHead(nn.Module):
    """Transform, then a decoder tied to the word embeddings, as the families' own."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.dense = nn.Linear(shape.hidden, shape.embedding)
        self.activation = activation(shape.activation)
        self.norm = nn.LayerNorm(shape.embedding, eps=shape.eps)
        self.bias = nn.Parameter(torch.zeros(shape.vocab))

    def forward(self, states: Tensor, word_embeddings: Tensor) -> Tensor:
        """Logits [..., V] over the vocabulary of final states [..., d]; `word_embeddings` is [V, e]."""
        transformed = self.norm(self.activation(self.dense(states)))
        return functional.linear(transformed, word_embeddings, self.bias)

    @classmethod
    def from_checkpoint(cls, shape: Architecture, weights: Mapping[str, Tensor]) -> "LmHead | None":
        """The checkpoint's own head, or None when its weights hold none."""
        found = select(weights, "head.")
        if "dense.weight" not in found:
            return None
        module = cls(shape)
        fill(module, found, "the checkpoint's language model head", "unsupported_checkpoint")
        return module

    def save(self, path: Path) -> None:
        """Write the weights to a safetensors file."""
        write_weights(path, self.state_dict())

    @classmethod
    def load(cls, path: Path, shape: Architecture, device: torch.device | str = "cpu") -> "LmHead":
        """Read what `save` wrote, fp32."""
        module = cls(shape)
        fill(module, widen(read_weights(path)), path.name)
        return module.to(device)

"""The language model head of a root: needed only to further-pretrain on it."""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig
from transformers.activations import ACT2FN

from inference.hplm.bert import load_weights, select
from inference.hplm.checkpoint import Checkpoint
from inference.hplm.weights import read_weights, widen, write_weights

_NAMES = {
    "cls.predictions.transform.dense.weight": "dense.weight",
    "cls.predictions.transform.dense.bias": "dense.bias",
    "cls.predictions.transform.LayerNorm.weight": "norm.weight",
    "cls.predictions.transform.LayerNorm.bias": "norm.bias",
    "cls.predictions.bias": "bias",
}


class LmHead(nn.Module):
    """Transform, then a decoder tied to the word embeddings, as BERT's own."""

    def __init__(self, bert: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(bert.hidden_size, bert.hidden_size)
        self.activation = ACT2FN[bert.hidden_act]
        self.norm = nn.LayerNorm(bert.hidden_size, eps=bert.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(bert.vocab_size))

    def forward(self, states: Tensor, word_embeddings: Tensor) -> Tensor:
        """Logits [..., V] over the vocabulary of final states [..., d]; `word_embeddings` is [V, d]."""
        transformed = self.norm(self.activation(self.dense(states)))
        return functional.linear(transformed, word_embeddings, self.bias)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "LmHead | None":
        """The checkpoint's own head, or None when it carries none."""
        if not select(checkpoint.weights, "cls.predictions.transform."):
            return None
        module = cls(checkpoint.config)
        found = {own: checkpoint.weights[name] for name, own in _NAMES.items() if name in checkpoint.weights}
        load_weights(module, found, "the checkpoint's language model head", "unsupported_checkpoint")
        return module

    def save(self, path: Path) -> None:
        """Write the weights to a safetensors file."""
        write_weights(path, self.state_dict())

    @classmethod
    def load(cls, path: Path, bert: BertConfig, device: torch.device | str = "cpu") -> "LmHead":
        """Read what `save` wrote, fp32."""
        module = cls(bert)
        load_weights(module, widen(read_weights(path)), path.name)
        return module.to(device)

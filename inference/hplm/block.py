"""One transformer layer, and the embeddings below the first: the same modules for every family."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.architecture import Architecture, activation
from inference.hplm.pet_batch import LayerPets, SharedLayer

NO_PETS = SharedLayer({})


# Tokens of a text up to which attention is written out while training on a CPU.
SENTENCE = 256


MASKED = -1e4


class EncoderBlock(nn.Module):
    """Self-attention and feed-forward, each with a skip connection and then a normalisation."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        hidden, inner = shape.hidden, shape.inner
        self.heads = shape.heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=shape.eps)
        self.expand = nn.Linear(hidden, inner)
        self.contract = nn.Linear(inner, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps=shape.eps)
        self.activation = activation(shape.activation)

    def forward(self, hidden: Tensor, mask: Tensor | None, pets: LayerPets = NO_PETS) -> Tensor:
        """[B, T, d] to [B, T, d]; mask [B, T] bool (true: a token), None where every place holds one and
        there are few of them. The adapters stand behind the attention block and behind the feed-forward
        block (paper, section 3.2.2)."""
        attended = pets.linear("output", self.output, self._attend(hidden, mask, pets))
        hidden = pets.norm("attention", self.attention_norm, attended + hidden)
        hidden = pets.adapt("adapter", hidden)
        inner = self.activation(pets.linear("expand", self.expand, hidden))
        outer = pets.linear("contract", self.contract, inner)
        return pets.adapt("output_adapter", pets.norm("output", self.output_norm, outer + hidden))

    def _attend(self, hidden: Tensor, mask: Tensor | None, pets: LayerPets) -> Tensor:
        def heads(place: str, module: nn.Linear) -> Tensor:
            rows = pets.linear(place, module, hidden)
            return rows.view(*hidden.shape[:2], self.heads, -1).transpose(1, 2)

        value = heads("value", self.value)
        if mask is None and hidden.shape[1] == 1:
            return value.transpose(1, 2).flatten(2)
        query, key = heads("query", self.query), heads("key", self.key)
        if mask is None or _is_learnt_on_cpu(hidden):
            return _plain_attention(query, key, value, mask).transpose(1, 2).flatten(2)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        return mixed.transpose(1, 2).flatten(2)


def _is_learnt_on_cpu(hidden: Tensor) -> bool:
    """Whether [B, T, d] of sentences are to be differentiated where the fused kernel is slow at it."""
    return torch.is_grad_enabled() and hidden.device.type == "cpu" and hidden.shape[1] <= SENTENCE


def _plain_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attention among few tokens [B, heads, T, d_head], written out. The fused kernel is made for long texts:
    on a CPU this takes 40% of its time among a handful of tokens, and a training step of sentences 75%."""
    scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2)).float()
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], MASKED)
    return torch.matmul(scores.softmax(-1).to(value.dtype), value)


class Embeddings(nn.Module):
    """Of words, positions and token types, normalised, and projected where they are narrower than the
    layers."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        self.offset = shape.position_offset
        self.words = nn.Embedding(shape.vocab, shape.embedding)
        self.positions = nn.Embedding(shape.positions, shape.embedding)
        self.types = nn.Embedding(shape.types, shape.embedding) if shape.types else None
        self.norm = nn.LayerNorm(shape.embedding, eps=shape.eps)
        self.project = nn.Linear(shape.embedding, shape.hidden) if shape.embedding != shape.hidden else None

    def forward(self, ids: Tensor, types: Tensor | None = None, *, first: int = 0) -> Tensor:
        """[B, T, d] of ids [B, T] int64; positions count from `first`, types default to 0."""
        start = self.offset + first
        places = torch.arange(start, start + ids.shape[1], device=ids.device)
        total = self.words(ids) + self.positions(places)
        if self.types is not None:
            total = total + self.types(torch.zeros_like(ids) if types is None else types)
        normal: Tensor = self.norm(total)
        return normal if self.project is None else self.project(normal)


def build_blocks(shape: Architecture, count: int) -> nn.ModuleList:
    """`count` layers with untrained weights."""
    return nn.ModuleList(EncoderBlock(shape) for _ in range(count))

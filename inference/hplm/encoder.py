"""The encoder: embeddings and transformer blocks for all families, split into lower and upper layers."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.architecture import Architecture, make_activation
from inference.hplm.artifact_files import (
    build_uninitialized,
    freeze,
    load_weights,
    read_weights,
    select_layers,
    select_prefix,
    to_float32,
    write_weights,
)
from inference.hplm.pet_batch import LayerPets, Pets, SharedLayer

NO_PETS = SharedLayer({})

MAX_UNFUSED_TOKENS = 256
"""Longest text for which training on a CPU uses unfused attention."""
MASKED_SCORE = -1e4


class EncoderBlock(nn.Module):
    """A post-layer-norm transformer block: self-attention and feed-forward."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        hidden, inner = architecture.hidden, architecture.inner
        self.heads = architecture.heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=architecture.eps)
        self.expand = nn.Linear(hidden, inner)
        self.contract = nn.Linear(inner, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps=architecture.eps)
        self.activation = make_activation(architecture.activation)

    def forward(self, hidden: Tensor, mask: Tensor | None, pets: LayerPets = NO_PETS) -> Tensor:
        """Hidden states [B, T, d] of hidden states [B, T, d].

        mask [B, T] bool (true: a token); None for short sequences without padding, such as fragments.
        Adapters follow the attention and the feed-forward block (paper, section 3.2.2).
        """
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
        if mask is None or _trains_on_cpu(hidden):
            return _unfused_attention(query, key, value, mask).transpose(1, 2).flatten(2)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        return mixed.transpose(1, 2).flatten(2)


def _trains_on_cpu(hidden: Tensor) -> bool:
    """Whether gradients of short texts are needed on a CPU, where the fused kernel's backward is slow."""
    return torch.is_grad_enabled() and hidden.device.type == "cpu" and hidden.shape[1] <= MAX_UNFUSED_TOKENS


def _unfused_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attention [B, heads, T, d_head] of short sequences, without the fused kernel, which is for long ones.

    On a CPU this takes 40% of the fused kernel's time for a few tokens, and 75% in training on sentences.
    """
    scores = torch.matmul(query * query.shape[-1] ** -0.5, key.transpose(-1, -2)).float()
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], MASKED_SCORE)
    return torch.matmul(scores.softmax(-1).to(value.dtype), value)


class Embeddings(nn.Module):
    """Word, position and token type embeddings, layer norm, and a projection to the hidden size if they are
    narrower."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        size, hidden = architecture.embedding, architecture.hidden
        self.offset = architecture.position_offset
        self.words = nn.Embedding(architecture.vocab, size)
        self.positions = nn.Embedding(architecture.positions, size)
        self.types = nn.Embedding(architecture.types, size) if architecture.types else None
        self.norm = nn.LayerNorm(size, eps=architecture.eps)
        self.project = nn.Linear(size, hidden) if size != hidden else None

    def forward(self, ids: Tensor, types: Tensor | None = None, *, first: int = 0) -> Tensor:
        """Embeddings [B, T, d] of ids and types (default: 0) [B, T] int64. Positions start at `first`."""
        start = self.offset + first
        positions = torch.arange(start, start + ids.shape[1], device=ids.device)
        total = self.words(ids) + self.positions(positions)
        if self.types is not None:
            total = total + self.types(torch.zeros_like(ids) if types is None else types)
        normed: Tensor = self.norm(total)
        return normed if self.project is None else self.project(normed)


def build_blocks(architecture: Architecture, count: int) -> nn.ModuleList:
    """`count` blocks with untrained weights."""
    return nn.ModuleList(EncoderBlock(architecture) for _ in range(count))


class FullLower(nn.Module):
    """The embeddings and the first `count` layers of a checkpoint, with full context."""

    def __init__(self, architecture: Architecture, count: int) -> None:
        super().__init__()
        self.architecture = architecture
        self.embeddings = Embeddings(architecture)
        self.layers = build_blocks(architecture, count)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
        """Hidden states [B, T, d] at the cut.

        ids and types (default: zeros) [B, T] int64; mask [B, T] bool (true: a token).
        """
        hidden: Tensor = self.embeddings(ids, types)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return hidden

    @property
    def word_embeddings(self) -> Tensor:
        """The word embeddings [V, e]."""
        return self.embeddings.words.weight

    @classmethod
    def from_checkpoint(
        cls, architecture: Architecture, weights: Mapping[str, Tensor], count: int
    ) -> "FullLower":
        """The lower layers of a checkpoint, frozen, float32."""
        module = cls(architecture, count)
        embeddings = {
            f"embeddings.{name}": value for name, value in select_prefix(weights, "embeddings.").items()
        }
        lower = embeddings | select_layers(weights, 0, count)
        load_weights(module, lower, "the checkpoint", "unsupported_checkpoint")
        freeze(module)
        return module

    def save(self, path: Path) -> None:
        """Write the weights to a safetensors file."""
        write_weights(path, self.state_dict())

    @classmethod
    def load(
        cls,
        path: Path,
        architecture: Architecture,
        count: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "FullLower":
        """Read what `save` wrote, frozen."""
        module = build_uninitialized(lambda: cls(architecture, count))
        load_weights(module, to_float32(read_weights(path)), path.name)
        freeze(module)
        return module.to(device=device, dtype=dtype)


class UpperLayers(nn.Module):
    """The last `count` layers of the root, frozen."""

    def __init__(self, architecture: Architecture, count: int) -> None:
        super().__init__()
        self.layers = build_blocks(architecture, count)

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def step(self, index: int, hidden: Tensor, mask: Tensor, pets: Pets | None) -> Tensor:
        """Hidden states [B, T, d] after upper layer `index` with the PETs."""
        result: Tensor = self.layers[index](hidden, mask, NO_PETS if pets is None else pets.layer(index))
        return result

    def forward(
        self,
        hidden: Tensor,
        mask: Tensor,
        pets: Pets | None = None,
        before_layer: Callable[[int], None] = lambda _: None,
    ) -> Tensor:
        """Final hidden states [B, T, d] of states [B, T, d] at the cut; mask [B, T] bool (true: a token).

        The result has the dtype of the layers. It is undefined where ``mask`` is false. ``before_layer`` is
        called with the index of each layer.
        """
        hidden = hidden.to(self.dtype)
        for index in range(len(self.layers)):
            before_layer(index)
            hidden = self.step(index, hidden, mask, pets)
        return hidden

    @classmethod
    def from_checkpoint(
        cls, architecture: Architecture, weights: Mapping[str, Tensor], lower: int
    ) -> "UpperLayers":
        """The layers of a checkpoint above the first `lower`, frozen, float32."""
        module = cls(architecture, architecture.layers - lower)
        load_weights(
            module,
            select_layers(weights, lower, architecture.layers),
            "the checkpoint",
            "unsupported_checkpoint",
        )
        freeze(module)
        return module

    def save(self, path: Path) -> None:
        """Write the weights to a safetensors file."""
        write_weights(path, self.state_dict())

    @classmethod
    def load(
        cls, path: Path, architecture: Architecture, count: int, device: torch.device, dtype: torch.dtype
    ) -> "UpperLayers":
        """Read what `save` wrote, frozen."""
        module = build_uninitialized(lambda: cls(architecture, count))
        load_weights(module, to_float32(read_weights(path)), path.name)
        freeze(module)
        return module.to(device=device, dtype=dtype)

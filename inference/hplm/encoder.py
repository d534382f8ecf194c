"""The encoder: embeddings and transformer blocks for all families, split into lower and upper layers."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from inference.hplm.architecture import Architecture, make_activation
from inference.hplm.artifact_files import (
    build_from,
    freeze,
    read_weights,
    select_layers,
    select_prefix,
    to_float32,
    write_weights,
)
from inference.hplm.attention import attention
from inference.hplm.pets.batch import LayerPets, Pets, SharedLayer
from inference.hplm.pets.spec import PLACES, PetSpec
from inference.hplm.position_scheme import PositionScheme
from inference.hplm.sequences import PackedSequences

NO_PETS = SharedLayer({}, PetSpec())
Layout = Tensor | PackedSequences
"""Where tokens are: a mask [B, T] bool over padded sequences, or how packed ones lie."""


class EncoderBlock(nn.Module):
    """Layer `index` of an encoder: self-attention and feed-forward, with the parts of its architecture."""

    def __init__(self, architecture: Architecture, index: int) -> None:
        super().__init__()
        hidden, inner = architecture.hidden, architecture.inner
        self.heads, self.pre_norm = architecture.heads, architecture.pre_norm
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)
        # The embeddings have a norm of their own.
        has_norm = index > 0 or not architecture.pre_norm
        self.attention_norm = nn.LayerNorm(hidden, eps=architecture.eps) if has_norm else None
        self.expand = nn.Linear(hidden, inner)
        self.gate = nn.Linear(hidden, inner) if architecture.gated else None
        self.contract = nn.Linear(inner, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps=architecture.eps)
        self.activation = make_activation(architecture.activation)
        self.positions = PositionScheme.of(architecture, index)

    def forward(self, hidden: Tensor, layout: Layout | None, pets: LayerPets = NO_PETS) -> Tensor:
        """States of the shape of `hidden`: [N, d] of packed sequences, or [B, T, d] with a mask [B, T] (true:
        a token), None where every place holds a token and there are few of them. The adapters stand behind
        the attention block and behind the feed-forward block (paper, section 3.2.2): behind their norms, or,
        where the norms come first, before what the block gives is added to what it read."""
        if self.pre_norm:
            norm = self.attention_norm
            normed = hidden if norm is None else pets.norm("attention", norm, hidden)
            hidden = hidden + pets.adapt("adapter", self._attended(normed, layout, pets))
            normed = pets.norm("output", self.output_norm, hidden)
            return hidden + pets.adapt("output_adapter", self._fed_forward(normed, pets))
        assert self.attention_norm is not None
        attended = self._attended(hidden, layout, pets)
        hidden = pets.norm("attention", self.attention_norm, attended + hidden)
        hidden = pets.adapt("adapter", hidden)
        outer = self._fed_forward(hidden, pets)
        return pets.adapt("output_adapter", pets.norm("output", self.output_norm, outer + hidden))

    def _attended(self, hidden: Tensor, layout: Layout | None, pets: LayerPets) -> Tensor:
        return pets.linear("output", self.output, self._mixed(hidden, layout, pets))

    def _mixed(self, hidden: Tensor, layout: Layout | None, pets: LayerPets) -> Tensor:
        if layout is None and hidden.shape[1] == 1:  # a token alone attends to itself
            return pets.linear("value", self.value, hidden)
        maps = {"query": self.query, "key": self.key, "value": self.value}
        query, key, value = pets.linears(maps, hidden)
        return attention(query, key, value, layout, self.heads, self.positions)

    def _fed_forward(self, hidden: Tensor, pets: LayerPets) -> Tensor:
        if self.gate is None:
            inner = self.activation(pets.linear("expand", self.expand, hidden))
        else:
            expanded, gate = pets.linears({"expand": self.expand, "gate": self.gate}, hidden)
            inner = self.activation(expanded) * gate
        return pets.linear("contract", self.contract, inner)


class Embeddings(nn.Module):
    """Word, position and token type embeddings, layer norm, and a projection to the hidden size if they are
    narrower."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        size, hidden = architecture.embedding, architecture.hidden
        self.offset = architecture.position_offset
        self.words = nn.Embedding(architecture.vocab, size)
        learned = architecture.position_embeddings
        self.positions = nn.Embedding(architecture.positions, size) if learned else None
        self.types = nn.Embedding(architecture.types, size) if architecture.types else None
        self.norm = nn.LayerNorm(size, eps=architecture.eps)
        self.project = nn.Linear(size, hidden) if size != hidden else None

    def forward(self, ids: Tensor, types: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        """[..., d] of ids [...] int64; positions count from 0 along the last dimension unless they are given,
        types default to 0."""
        total = self.words(ids)
        if self.positions is not None:
            if positions is None:
                positions = torch.arange(ids.shape[-1], device=ids.device)
            total = total + self.positions(self.offset + positions)
        if self.types is not None:
            total = total + self.types(torch.zeros_like(ids) if types is None else types)
        normed: Tensor = self.norm(total)
        return normed if self.project is None else self.project(normed)


def build_blocks(architecture: Architecture, first: int, end: int) -> nn.ModuleList:
    """The layers `first` to `end` (exclusive) with untrained weights."""
    return nn.ModuleList(EncoderBlock(architecture, index) for index in range(first, end))


class FullLower(nn.Module):
    """The embeddings and the first `count` layers of a checkpoint, with full context."""

    def __init__(self, architecture: Architecture, count: int) -> None:
        super().__init__()
        self.architecture = architecture
        self.embeddings = Embeddings(architecture)
        self.layers = build_blocks(architecture, 0, count)

    def forward(
        self, ids: Tensor, layout: Layout, types: Tensor | None = None, positions: Tensor | None = None
    ) -> Tensor:
        """Hidden states at the cut: [N, d] of packed `ids` [N] int64, or [B, T, d] of `ids` [B, T] with a
        mask [B, T] bool (true: a token); `types` and `positions` are of the shape of `ids` (default: zeros,
        and where each token is in its sequence)."""
        if positions is None and isinstance(layout, PackedSequences):
            positions = layout.positions_on(ids.device)
        hidden: Tensor = self.embeddings(ids, types, positions)
        for layer in self.layers:
            hidden = layer(hidden, layout)
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
        embeddings = {
            f"embeddings.{name}": value for name, value in select_prefix(weights, "embeddings.").items()
        }
        lower = embeddings | select_layers(weights, 0, count)
        module = build_from(
            lambda: cls(architecture, count), lower, "the checkpoint", "unsupported_checkpoint"
        )
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
        module = build_from(lambda: cls(architecture, count), to_float32(read_weights(path)), path.name)
        freeze(module)
        return module.to(device=device, dtype=dtype)


class UpperLayers(nn.Module):
    """The last `count` layers of the root, and its last norm if it has one, frozen."""

    def __init__(self, architecture: Architecture, count: int) -> None:
        super().__init__()
        self.architecture = architecture
        self.layers = build_blocks(architecture, architecture.layers - count, architecture.layers)
        width, eps = architecture.hidden, architecture.eps
        self.final_norm = nn.LayerNorm(width, eps=eps) if architecture.pre_norm else None

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def weights_by_place(self) -> dict[str, Tensor]:
        """The weights [L, out, in] of the linear layers that PETs change, by place."""
        return {
            place: torch.stack([getattr(layer, place).weight for layer in self.layers]) for place in PLACES
        }

    def step(self, index: int, hidden: Tensor, layout: Layout, pets: Pets | None) -> Tensor:
        """Upper layer `index` alone, as the PETs change it, and the last norm behind the last; the shape
        stays."""
        of_layer: LayerPets = NO_PETS if pets is None else pets.layer(index)
        result: Tensor = self.layers[index](hidden, layout, of_layer)
        if self.final_norm is not None and index == len(self.layers) - 1:
            result = self.final_norm(result)
        return result

    def forward(
        self,
        hidden: Tensor,
        layout: Layout,
        pets: Pets | None = None,
        before_layer: Callable[[int], None] = lambda _: None,
    ) -> Tensor:
        """Final states of token states at the cut: [N, d] of packed sequences, or [B, T, d] with a mask
        [B, T] bool (true: a token).

        `hidden` is cast to the layers' own type. What comes out where a mask is false means nothing.
        `before_layer` is called with the index of each layer before it is computed.
        """
        hidden = hidden.to(self.dtype)
        for index in range(len(self.layers)):
            before_layer(index)
            hidden = self.step(index, hidden, layout, pets)
        return hidden

    @classmethod
    def from_checkpoint(
        cls, architecture: Architecture, weights: Mapping[str, Tensor], lower: int
    ) -> "UpperLayers":
        """The layers of a checkpoint above the first `lower`, frozen, float32."""
        norm = {name: value for name, value in weights.items() if name.startswith("final_norm.")}
        upper = norm | select_layers(weights, lower, architecture.layers)
        count = architecture.layers - lower
        module = build_from(
            lambda: cls(architecture, count), upper, "the checkpoint", "unsupported_checkpoint"
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
        module = build_from(lambda: cls(architecture, count), to_float32(read_weights(path)), path.name)
        freeze(module)
        return module.to(device=device, dtype=dtype)

"""The lower layers of a decoder, computed on fragments alone, with what a conversion adds to their states."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.accuracy.hgpt.fragments import Ids, fragment_states, shorten
from benchmarks.accuracy.hgpt.texts import Texts
from inference.decoder.decoder import Decoder
from inference.decoder.dense_attention import DenseAttention
from inference.hplm.artifact_files import read_weights, write_weights


def full_states(decoder: Decoder, texts: Texts, layers: int) -> Tensor:
    """The states [T, hidden] above the lowest `layers` layers, with full context."""
    states = decoder.embed(texts.token_ids, texts.positions)
    return decoder.run_layers(states, texts.positions, DenseAttention(texts.layout), layers=range(layers))


@dataclass(frozen=True, eq=False)
class LocalLowerLayers:
    """Gives the states that the lower layers have with full context, as far as fragments tell them.

    decoder: its lowest `layers` layers read the fragments of at most n tokens. begin: see `shorten`.
    maps [n, hidden, hidden], bias [n, hidden]: what is added to the state of a fragment is linear in it, by
    the fragment's length less one. A table can store the sums, so this costs nothing at inference. Fragments
    that begin with their text are exact; nothing is added to them.
    """

    decoder: Decoder
    layers: int
    n: int
    begin: int
    maps: Tensor
    bias: Tensor

    @classmethod
    def unconverted(cls, decoder: Decoder, layers: int, n: int, begin: int) -> "LocalLowerLayers":
        """The decoder's own lower layers; nothing is added to their states."""
        hidden = decoder.architecture.hidden
        return cls(decoder, layers, n, begin, torch.zeros(n, hidden, hidden), torch.zeros(n, hidden))

    def states(self, texts: Texts, lengths: Ids | None = None) -> Tensor:
        """The states [T, hidden] of all tokens. lengths [T]: of their fragments at most (None: n)."""
        lengths = self.lengths(texts, lengths)
        return self.convert(self.plain(texts, lengths), texts, lengths)

    def lengths(self, texts: Texts, most: Ids | None = None) -> Ids:
        """How many tokens [T] of the fragments there are, at most `most` [T] (None: n)."""
        return np.minimum(texts.layout.positions + 1, self.n if most is None else most)

    def plain(self, texts: Texts, lengths: Ids) -> Tensor:
        """The states [T, hidden] of the fragments of these lengths, as the lower layers give them."""
        fragments = shorten(texts.fragments(self.n), lengths, self.begin)
        return fragment_states(self.decoder, fragments, self.layers)

    def convert(self, states: Tensor, texts: Texts, lengths: Ids) -> Tensor:
        """The states of fragments of these lengths, with what the conversion adds to them."""
        result = states
        for length in np.unique(lengths).tolist():
            rows = incomplete(texts, lengths, length)
            if len(rows):
                added = states[rows] @ self.maps[length - 1] + self.bias[length - 1]
                result = result.index_add(0, rows, added)
        return result

    def save(self, path: Path) -> None:
        """Write the layers and what is added to their states."""
        write_weights(path, {**self.layer_weights(), "maps": self.maps, "bias": self.bias})

    def loaded(self, path: Path) -> "LocalLowerLayers":
        """With what `save` wrote of one with as many layers."""
        weights = read_weights(path)
        maps, bias = weights.pop("maps"), weights.pop("bias")
        decoder = Decoder(self.decoder.architecture, {**self.decoder.weights, **weights})
        return replace(self, decoder=decoder, maps=maps, bias=bias)

    def layer_weights(self) -> dict[str, Tensor]:
        """The weights of the layers that read fragments."""
        parts = [f"layers.{layer}." for layer in range(self.layers)]
        weights = self.decoder.weights.items()
        return {name: weight for name, weight in weights if any(map(name.startswith, parts))}


def incomplete(texts: Texts, lengths: Ids, length: int) -> Tensor:
    """Which tokens [R] int64 have fragments of this length that do not begin with their text."""
    return torch.from_numpy(np.flatnonzero((lengths == length) & (lengths <= texts.layout.positions)))

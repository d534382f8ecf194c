"""Causal fragments of texts, and the lower layers of a decoder computed on these alone.

The fragment of a token is the token with up to n - 1 tokens before it. The first tokens of a text have
shorter fragments. The tokens of a fragment are at positions 0, 1, … whatever their place in the text: rotary
embeddings only tell distances. The upper layers read the positions in the text.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor
from torch.nn import functional

from inference.decoder.decoder import Decoder

Ids = npt.NDArray[np.int64]
MISSING: Final = -1
"""Stands before the tokens of a fragment that is shorter than n."""


def fragments_of(ids: Ids, n: int) -> Ids:
    """The fragment [T, n] of each token of a text [T]."""
    padded = np.concatenate((np.full(n - 1, MISSING, dtype=np.int64), ids))
    return sliding_window_view(padded, n)


def shorten(fragments: Ids, lengths: Ids, begin: int) -> Ids:
    """The last `lengths` [F] tokens of each fragment [F, n], n at least 2: what a table falls back on.

    A single token lies behind the token `begin`: a decoder takes whatever is at position 0 for the beginning
    of a text, and gives it a state of its own kind. Fragments that are not cut stay as they are.
    """
    n = fragments.shape[1]
    kept = np.arange(n) >= n - lengths[:, None]
    shortened = np.where(kept, fragments, MISSING)
    alone = (lengths == 1) & (fragments[:, -2] != MISSING)
    shortened[alone, -2] = begin
    return shortened


@dataclass(frozen=True, eq=False)
class PrefixTree:
    """The distinct prefixes of fragments. Attention is causal: a prefix has the same states in all of them.

    token_ids, positions: [N] of each prefix's last token. paths: for each length d, the numbers [N_d, d] of
    the prefixes of 1 to d tokens of each prefix of d tokens. ends: [F] which prefix each fragment is.
    """

    token_ids: Ids
    positions: Ids
    paths: tuple[Ids, ...]
    ends: Ids

    @classmethod
    def of(cls, fragments: Ids) -> "PrefixTree":
        """The tree of fragments [F, n]."""
        count, n = fragments.shape
        lengths = (fragments != MISSING).sum(axis=1)
        left = fragments[np.arange(count)[:, None], (np.arange(n) + (n - lengths)[:, None]) % n]
        nodes = np.full((count, n), MISSING, dtype=np.int64)
        token_ids, paths, total = list[Ids](), list[Ids](), 0
        for depth in range(int(lengths.max())):
            longer = np.flatnonzero(lengths > depth)
            prefixes, first, inverse = np.unique(
                left[longer, : depth + 1], axis=0, return_index=True, return_inverse=True
            )
            nodes[longer, depth] = total + inverse.reshape(-1)
            paths.append(nodes[longer[first], : depth + 1])
            token_ids.append(prefixes[:, -1])
            total += len(prefixes)
        positions = np.repeat(np.arange(len(paths)), [len(path) for path in paths])
        return cls(np.concatenate(token_ids), positions, tuple(paths), nodes[np.arange(count), lengths - 1])


class PrefixAttention:
    """Attention of each prefix of a tree to the tokens on its path."""

    def __init__(self, tree: PrefixTree) -> None:
        self._paths = [torch.from_numpy(path) for path in tree.paths]

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Mixed values [N, heads, d] of query [N, heads, d], key and value [N, kv_heads, d]."""
        return torch.cat([self._mixed(path, query, key, value) for path in self._paths])

    def _mixed(self, path: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q = query[path[:, -1]].unsqueeze(2)
        k, v = (states[path].transpose(1, 2) for states in (key, value))
        return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True).squeeze(2)


def fragment_states(decoder: Decoder, fragments: Ids, layers: int) -> Tensor:
    """The states [F, hidden] of the last token of each fragment [F, n] above the lowest `layers` layers."""
    tree = PrefixTree.of(fragments)
    token_ids, positions, ends = (
        torch.from_numpy(part) for part in (tree.token_ids, tree.positions, tree.ends)
    )
    states = decoder.run_layers(
        decoder.embed(token_ids, positions), positions, PrefixAttention(tree), layers=range(layers)
    )
    return states[ends]

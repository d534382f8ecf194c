"""Causal fragments of token sequences: which of them a table has, and a decoder's states of them.

The fragment of a token ends with it: of up to three tokens, behind the token that begins every text. That
first token takes the attention that finds nothing, so a fragment without it has other states.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from inference.decoder.decoder import Decoder
from inference.hplm.plot import HIT_EXACT, HIT_SHORTER, HIT_UNIGRAM

Ids = NDArray[np.int64]
LONGEST: Final = 3
"""Tokens of a complete fragment: HMI 7.10 takes tri-grams for hGPT."""
NODES_PER_CHUNK: Final = 4096


class Fragments:
    """The different fragments of sequences [S, T], each beginning with the same token, as a trie.

    Node 0 is that first token; then come the uni-grams, bi-grams and tri-grams behind it, ascending. A node's
    state is that of its last token.
    """

    def __init__(self, sequences: Ids, vocab: int) -> None:
        self.first, self._vocab = int(sequences[0, 0]), vocab
        found = [np.unique(keys(sequences, depth, vocab)[:, depth:]) for depth in range(1, LONGEST + 1)]
        self._keys = [np.zeros(1, dtype=np.int64), *found]
        self._begin = np.cumsum([0, *map(len, self._keys)])
        self.tokens = np.concatenate([[self.first], *(one % vocab for one in found)])
        self.depths = np.repeat(np.arange(LONGEST + 1), [len(one) for one in self._keys])
        parents = [
            self._begin[depth] + np.searchsorted(self._keys[depth], self._keys[depth + 1] // vocab)
            if depth
            else np.zeros(len(found[0]), dtype=np.int64)
            for depth in range(LONGEST)
        ]
        self.parents = np.concatenate([[0], *parents])

    def __len__(self) -> int:
        return len(self.tokens)

    def nodes(self, sequences: Ids, depths: Ids) -> Ids:
        """The node [S, T] of each token's last `depths` tokens; both [S, T], at most as many as precede it
        behind the first token."""
        nodes = np.zeros_like(sequences)
        for depth in range(1, LONGEST + 1):
            wanted = keys(sequences, depth, self._vocab)
            at = self._begin[depth] + np.searchsorted(self._keys[depth], wanted)
            nodes = np.where(depths == depth, at, nodes)
        return nodes

    @torch.no_grad()
    def states(self, decoder: Decoder, cuts: Sequence[int]) -> dict[int, Tensor]:
        """The nodes' states [nodes, hidden] float32 above the lowest layers, for each number of them."""
        found = {cut: torch.empty(len(self), decoder.architecture.hidden) for cut in cuts}
        for chunk in self._chunks():
            self._run(chunk, decoder, found)
        return found

    def _chunks(self) -> list[Ids]:
        """The nodes in parts that hold their ancestors, without node 0: those with the same uni-gram."""
        roots = np.arange(len(self))
        for _ in range(LONGEST - 1):
            roots = np.where(self.depths[roots] > 1, self.parents[roots], roots)
        order = np.argsort(roots, kind="stable")[1:]
        borders = np.flatnonzero(np.diff(roots[order], prepend=-1))
        chosen, taken = [], 0
        for begin, end in pairwise([*borders.tolist(), len(order)]):
            if end - taken > NODES_PER_CHUNK and begin > taken:
                chosen.append(begin)
                taken = begin
        return np.split(order, chosen)

    def _run(self, chunk: Ids, decoder: Decoder, found: dict[int, Tensor]) -> None:
        nodes = np.concatenate([[0], chunk])
        place = np.zeros(len(self), dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        path = [nodes]
        for _ in range(LONGEST):
            path.append(self.parents[path[-1]])
        ancestors = torch.from_numpy(place[np.stack(path, axis=1)])
        depths = torch.from_numpy(self.depths[nodes])
        attention = PathAttention(ancestors, torch.arange(LONGEST + 1) <= depths[:, None])
        states, done = decoder.embed(torch.from_numpy(self.tokens[nodes]), depths), 0
        for cut in sorted(found):
            states = decoder.run_layers(states, depths, attention, layers=range(done, cut))
            found[cut][torch.from_numpy(nodes)], done = states, cut


class PathAttention:
    """Attention of each node of a trie to itself and its ancestors.

    path: [nodes, P] int64, the node and its ancestors. is_node: [nodes, P] bool, false behind the root.
    """

    def __init__(self, path: Tensor, is_node: Tensor) -> None:
        self._path, self._is_node = path, is_node[:, None, None, :]

    def __call__(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, window: int | None = None
    ) -> Tensor:
        """Mixed values [nodes, heads, d] of query [nodes, heads, d], key and value [nodes, kv_heads, d]."""
        keys_of, values_of = (states[self._path].transpose(1, 2) for states in (key, value))
        mixed = functional.scaled_dot_product_attention(
            query[:, :, None], keys_of, values_of, attn_mask=self._is_node, enable_gqa=True
        )
        return mixed[:, :, 0]


class Table:
    """Which bi-grams and tri-grams a table of coverage `alpha` % of sequences [S, T] has."""

    def __init__(self, sequences: Ids, vocab: int, alpha: float) -> None:
        self._vocab, self._kept = vocab, {}
        for depth in range(2, LONGEST + 1):
            different, counts = np.unique(keys(sequences, depth, vocab)[:, depth:], return_counts=True)
            falling = np.sort(counts)[::-1]
            last = np.searchsorted(np.cumsum(falling), alpha / 100 * falling.sum())
            self._kept[depth] = different, counts, falling[min(int(last), len(falling) - 1)]

    def depths(self, sequences: Ids, *, leave_one_out: bool = False) -> Ids:
        """Tokens [S, T] of the longest fragment that is there for each token.

        leave_one_out: do not count the fragment's own occurrence, for sequences that were themselves counted.
        """
        depths = np.minimum(complete(sequences), 1)
        for depth, (different, counts, minimum) in self._kept.items():
            wanted = keys(sequences, depth, self._vocab)
            at = np.minimum(np.searchsorted(different, wanted), len(different) - 1)
            is_kept = (different[at] == wanted) & (counts[at] - leave_one_out >= minimum)
            depths = np.where(is_kept & (complete(sequences) >= depth), depth, depths)
        return depths


def keys(sequences: Ids, depth: int, vocab: int) -> Ids:
    """A number [S, T] for the last `depth` tokens of each token; without meaning for the first `depth`."""
    packed = np.zeros_like(sequences)
    for away in range(depth - 1, -1, -1):
        packed = packed * vocab + np.roll(sequences, away, axis=1)
    return packed


def complete(sequences: Ids) -> Ids:
    """Tokens [S, T] of each token's complete fragment: fewer at the beginning, 0 for the first."""
    return np.broadcast_to(np.minimum(np.arange(sequences.shape[1]), LONGEST), sequences.shape)


def hit_levels(depths: Ids) -> Ids:
    """The level [S, T] at which fragments of so many tokens count as found, one of plot's HIT_*."""
    levels = np.where(depths == 1, HIT_UNIGRAM, HIT_SHORTER)
    return np.where(depths == complete(depths), HIT_EXACT, levels)

"""What a layer's attention knows of where tokens are, beside the embeddings: rotary positions, relative ones,
and a window of neighbours."""

from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.hplm.architecture import Architecture
from inference.hplm.relative_positions import by_pair, distance_rows

QUERY_BLOCK = 256
"""Queries that attend to their windows at once, in a text longer than that."""
MASKED_SCORE = -1e4
"""Finite, so that a place of padding with nothing to attend to gives numbers."""


class PositionScheme(nn.Module):
    """The position scheme of one layer. Queries, keys and values are [B, heads, T, d_head].

    theta: base of the rotary frequencies, 0: none. window: tokens on each side that a token attends to, 0:
    all. biases, keys, queries: the tables of relative positions, each a parameter or None. scale: of scores.
    """

    biases: nn.Parameter | None
    keys: nn.Parameter | None
    queries: nn.Parameter | None

    def __init__(self, architecture: Architecture, layer: int) -> None:
        super().__init__()
        self.theta = architecture.rotary[layer] if architecture.rotary else 0.0
        self.window = architecture.windows[layer] if architecture.windows else 0
        self._max_length = architecture.max_length
        self._relative = relative = architecture.relative
        widths = {"biases": architecture.heads, "keys": architecture.hidden, "queries": architecture.hidden}
        tables = {} if relative is None else {part: (relative.rows, widths[part]) for part in relative.parts}
        for part in widths:
            table = nn.Parameter(torch.zeros(tables[part])) if part in tables else None
            self.register_parameter(part, table)
        products = 1 + len(tables.keys() & {"keys", "queries"})
        self.scale = (architecture.head_size * products) ** -0.5

    @classmethod
    def of(cls, architecture: Architecture, layer: int) -> "PositionScheme | None":
        """That of a layer; None where the embeddings alone know of positions."""
        scheme = cls(architecture, layer)
        return scheme if scheme.theta or scheme.window or scheme.has_bias else None

    @property
    def has_bias(self) -> bool:
        """Whether scores get a bias for each pair of tokens, which few kernels take."""
        return self._relative is not None

    def rotated(self, states: Tensor, positions: Tensor | None) -> Tensor:
        """Queries or keys [..., T, heads, d_head], turned by their positions [T] (None: 0 to T - 1)."""
        if not self.theta:
            return states
        table = rotation_table(self.theta, states.shape[-1], self._max_length, states.device)
        table = table[:, : states.shape[-3]] if positions is None else table[:, positions]
        return rotate(states, table)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, is_token: Tensor | None) -> Tensor:
        """Mixed values, by the fused kernel. is_token: [B, 1, 1, T] bool, None: all places hold tokens."""
        tokens = query.shape[2]
        if self.window and not self.has_bias and tokens > QUERY_BLOCK:
            return self._attend_in_blocks(query, key, value, is_token)
        mask = self._added(query, key, is_token)
        if mask is None:  # See `packed_attention._by_length`.
            mask = query.new_zeros(1, 1, 1, tokens)
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=self.scale)

    def _attend_in_blocks(self, query: Tensor, key: Tensor, value: Tensor, is_token: Tensor | None) -> Tensor:
        """As `attend`: each block of queries reads the keys of its windows alone, not all."""
        tokens, mixed = query.shape[2], []
        for begin in range(0, tokens, QUERY_BLOCK):
            end = min(begin + QUERY_BLOCK, tokens)
            near = slice(max(0, begin - self.window), min(tokens, end + self.window))
            distance = torch.arange(begin, end, device=query.device)[:, None] - torch.arange(
                near.start, near.stop, device=query.device
            )
            outside = distance.abs() > self.window
            if is_token is not None:
                outside = outside | ~is_token[..., near]
            mask = query.new_zeros(outside.shape).masked_fill(outside, MASKED_SCORE)
            part = query[:, :, begin:end], key[:, :, near], value[:, :, near]
            mixed.append(functional.scaled_dot_product_attention(*part, attn_mask=mask, scale=self.scale))
        return torch.cat(mixed, dim=2)

    def _added(self, query: Tensor, key: Tensor, is_token: Tensor | None) -> Tensor | None:
        """`bias`, with a score that is never chosen where the mask is false."""
        bias = self.bias(query, key)
        if is_token is None:
            return bias
        return is_token if bias is None else bias.masked_fill(~is_token, MASKED_SCORE)

    def bias(self, query: Tensor, key: Tensor) -> Tensor | None:
        """What is added to the scaled scores, broadcastable to [B, heads, T, T]; None: nothing."""
        tokens, total = query.shape[2], None
        if self._relative is not None:
            at = distance_rows(self._relative, tokens, query.device)
            if self.biases is not None:
                total = by_pair(self.biases.to(query.dtype)[at.rows].t())[None]
            if self.keys is not None or self.queries is not None:
                product = self._content_by_position(query, key)
                total = product if total is None else total + product
        if self.window and tokens > self.window + 1:
            place = torch.arange(tokens, device=query.device)
            outside = (place[:, None] - place).abs() > self.window
            start = query.new_zeros(1, 1, tokens, tokens) if total is None else total
            total = start.masked_fill(outside, MASKED_SCORE)
        return total

    def _content_by_position(self, query: Tensor, key: Tensor) -> Tensor:
        """Scores of the content's queries with the positions' keys, and of the content's keys with the
        positions' queries (DeBERTa)."""
        assert self._relative is not None
        at = distance_rows(self._relative, query.shape[2], query.device)
        row = by_pair(at.rows - at.first).expand(*query.shape[:3], -1)
        total = query.new_zeros(())
        for states, table, rows in ((query, self.keys, row), (key, self.queries, row.transpose(2, 3))):
            if table is None:
                continue
            near = table[at.first : at.last + 1].to(query.dtype).view(-1, query.shape[1], query.shape[3])
            product = torch.matmul(states * self.scale, near.permute(1, 2, 0)).gather(3, rows)
            total = total + (product if states is query else product.transpose(2, 3))
        return total


@lru_cache(16)
def rotation_table(theta: float, size: int, positions: int, device: torch.device) -> Tensor:
    """Cosine and sine [2, positions, 1, size / 2] float32 of the angles of all positions.

    A table, so that a position has the same angles in any batch.
    """
    with torch.inference_mode(mode=False):  # Training uses the same tensors.
        frequencies = 1.0 / theta ** (torch.arange(0, size, 2, dtype=torch.float32) / size)
        angles = torch.outer(torch.arange(positions, dtype=torch.float32), frequencies).unsqueeze(1)
        return torch.stack((angles.cos(), angles.sin())).to(device)


def rotate(states: Tensor, rotation: Tensor) -> Tensor:
    """Queries or keys [..., T, heads, d], turned by a rotation [2, T, 1, d / 2]: number i with i + d / 2."""
    cosine, sine = rotation
    first, second = states.float().chunk(2, dim=-1)
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return turned.to(states.dtype)

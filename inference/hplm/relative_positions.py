"""Relative positions: which row of a layer's tables stands for the distance of two tokens."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from inference.errors import HplmError

PARTS = ("biases", "keys", "queries")
"""The tables that a layer may have; see `RelativePositions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelativePositions:
    """Tables of 2 * span rows. Row span + d stands for a query d tokens behind the key, as far as |d| is at
    most span / 2; farther ones share rows on a logarithmic scale.

    furthest: the distance from which on all share the last row (0: no scale; every distance has a row, as
    far as the span reaches). rounds_up: whether a distance between two rows takes the farther one. parts: the
    tables of a layer: `biases` [rows, heads] are added to the scores (T5, MPNet); `keys` and `queries`
    [rows, d] are multiplied with the content's queries and keys (DeBERTa).
    """

    span: int
    furthest: int
    rounds_up: bool
    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.span < 1 or (self.furthest and not 1 < self.span <= self.furthest):
            raise HplmError(
                "unsupported_checkpoint",
                f"config.json: relative positions of {self.span} rows up to a distance of {self.furthest}",
            )
        if not self.parts or not set(self.parts) <= set(PARTS):
            raise HplmError(
                "unsupported_checkpoint",
                f"config.json: relative positions in {', '.join(self.parts) or 'nothing'}; "
                f"{', '.join(PARTS)} are supported",
            )

    @property
    def rows(self) -> int:
        """The number of rows of a table."""
        return 2 * self.span

    def row_of(self, distances: Tensor) -> Tensor:
        """The rows of distances, int64 both."""
        away = distances.abs()
        if self.furthest:
            away = torch.where(away > self.span // 2, self._logarithmic(away), away)
        return (self.span + distances.sign() * away).clamp(0, self.rows - 1)

    def _logarithmic(self, away: Tensor) -> Tensor:
        # In float32 and in the order of the original implementations: other roundings give other rows.
        near = self.span // 2
        far = self.furthest - 1 if self.rounds_up else self.furthest
        share = torch.log(away.clamp_min(1).float() / near) / torch.log(torch.tensor(far / near))
        if self.rounds_up:
            return near + torch.ceil(share * (near - 1)).long()
        return (near + (share * (self.span - near)).long()).clamp_max(self.span - 1)


@dataclass(frozen=True, slots=True)
class DistanceRows:
    """The rows [2 T - 1] int64 of the distances 1 - T to T - 1, on a device; they ascend from `first` to
    `last`."""

    rows: Tensor
    first: int
    last: int


@lru_cache(1024)
def distance_rows(positions: RelativePositions, tokens: int, device: torch.device) -> DistanceRows:
    """The rows for all pairs of `tokens` tokens. Batches have few lengths, so each is computed once."""
    with torch.inference_mode(mode=False):  # Training uses the same tensors.
        rows = positions.row_of(torch.arange(1 - tokens, tokens))
        return DistanceRows(rows.to(device), int(rows[0]), int(rows[-1]))


def by_pair(values: Tensor) -> Tensor:
    """What each pair (query, key) of T tokens has [..., T, T], of `values` [..., 2 T - 1] for the distances
    1 - T to T - 1 of the query from the key."""
    tokens = (values.shape[-1] + 1) // 2
    return values.flip(-1).unfold(-1, tokens, 1).flip(-2)

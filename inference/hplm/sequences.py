"""Sequences end to end in one tensor, without padding between them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.hplm.upload import Upload, Uploaded

MIN_PADDED_LENGTH: Final = 32
"""Shorter sequences are padded to this length: attention computes as many places at once."""

GAP: Final = 4
"""Places between spaced sequences: a convolution may read as many tokens on each side."""


@dataclass(frozen=True)
class PackedSequences:
    """How B sequences of ``lengths`` tokens, each at least one, lie in a tensor [N, ...] of all their
    tokens."""

    lengths: tuple[int, ...]

    @classmethod
    def of(cls, sequences: Sequence[NDArray[np.int64]]) -> "PackedSequences":
        """The layout of these token ids, in their order."""
        return cls(tuple(map(len, sequences)))

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where each sequence ends [B]."""
        return np.cumsum(self.lengths, dtype=np.int64)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where each sequence begins [B]."""
        return self.ends - np.array(self.lengths, dtype=np.int64)

    @property
    def tokens(self) -> int:
        """N, the tokens of all sequences."""
        return int(self.ends[-1])

    @property
    def longest(self) -> int:
        return max(self.lengths)

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """The position [N] of each token in its own sequence, from 0."""
        return np.arange(self.tokens) - np.repeat(self.starts, self.lengths)

    def positions_on(self, device: torch.device) -> Tensor:
        """`positions` on a device. Copied once for each."""
        if device not in self._positions:
            self.add_positions(Upload(device))
        return self._positions[device].tensor

    def add_positions(self, upload: Upload) -> None:
        """Let `positions_on` reach the device with that upload."""
        self._positions[upload.device] = upload.add(self.positions)

    @cached_property
    def _positions(self) -> dict[torch.device, Uploaded]:
        return {}

    def tokens_of(self, sequences: Sequence[int]) -> NDArray[np.int64]:
        """Where the tokens of these sequences lie, one sequence after the other."""
        return np.concatenate([np.arange(self.starts[at], self.ends[at]) for at in sequences])

    def bounds(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """Begin and end of ``count`` sequences from number ``first`` on."""
        chosen = slice(first, first + count)
        return zip(self.starts[chosen].tolist(), self.ends[chosen].tolist(), strict=True)

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """(first token, sequences, length) of neighbours of one length."""
        begin = 0
        for length, group in groupby(self.lengths):
            count = sum(1 for _ in group)
            yield begin, count, length
            begin += count * length

    def cumulative(self, device: torch.device) -> Tensor:
        """[B + 1] int32: 0, then where each sequence ends, as kernels for sequences of any length take it.
        Copied once for each device."""
        if device not in self._cumulative:
            self.add_cumulative(Upload(device))
        return self._cumulative[device].tensor

    def add_cumulative(self, upload: Upload) -> None:
        """Let `cumulative` reach the device with that upload."""
        ends = np.concatenate([[0], self.ends]).astype(np.int32)
        self._cumulative[upload.device] = upload.add(ends)

    @cached_property
    def _cumulative(self) -> dict[torch.device, Uploaded]:
        return {}

    def spaced(self, device: torch.device) -> Tensor:
        """Where each token [N] int64 lies once GAP free places are left between neighbours. Copied once for
        each device."""
        if device not in self._spaced:
            self.add_spaced(Upload(device))
        return self._spaced[device].tensor

    def add_spaced(self, upload: Upload) -> None:
        """Let `spaced` reach the device with that upload."""
        number = np.repeat(np.arange(len(self.lengths)), self.lengths)
        self._spaced[upload.device] = upload.add(np.arange(self.tokens) + GAP * number)

    @cached_property
    def _spaced(self) -> dict[torch.device, Uploaded]:
        return {}

    def split(self, values: Tensor) -> tuple[Tensor, ...]:
        """The part [T, ...] of each sequence of values [N, ...]."""
        return torch.split(values, list(self.lengths))

    def padded(self, device: torch.device) -> "PaddedSequences":
        """The sequences padded, for kernels that take one length. Computed once for each device."""
        if device not in self._padded:
            self.add_padded(Upload(device))
        return self._padded[device]

    def add_padded(self, upload: Upload) -> None:
        """Let `padded` reach the device with that upload."""
        self._padded[upload.device] = PaddedSequences.of(self, upload)

    @cached_property
    def _padded(self) -> "dict[torch.device, PaddedSequences]":
        return {}


@dataclass(frozen=True, eq=False)
class PaddedSequences:
    """Packed sequences of N tokens, padded to ``size`` places by repeating the last token of each.

    A sequence is as long as the next power of two, whatever the others are. groups: the places of the
    sequences of one padded length, and their number. index [size + N]: `tokens`, then `places`.
    """

    groups: tuple[tuple[slice, int], ...]
    size: int
    index: Uploaded

    @property
    def tokens(self) -> Tensor:
        """The token [size] int64 at each place."""
        return self.index.tensor[: self.size]

    @property
    def places(self) -> Tensor:
        """The place [N] int64 of each token."""
        return self.index.tensor[self.size :]

    @cached_property
    def is_token(self) -> Tensor:
        """Whether there is a token at each place [size] bool, not padding."""
        return self.places.new_zeros(self.size, dtype=torch.bool).index_fill_(0, self.places, True)

    @classmethod
    def of(cls, sequences: PackedSequences, upload: Upload) -> "PaddedSequences":
        lengths, starts = np.array(sequences.lengths), sequences.starts
        padded = np.array([_padded_length(length) for length in sequences.lengths])
        groups: list[tuple[slice, int]] = []
        tokens: list[NDArray[np.int64]] = []
        places, end = np.empty(sequences.tokens, dtype=np.int64), 0
        for length in np.unique(padded).tolist():
            own = np.flatnonzero(padded == length)
            positions, last = np.arange(length), lengths[own, None] - 1
            tokens.append((starts[own, None] + np.minimum(positions, last)).ravel())
            is_token = (positions <= last).ravel()
            places[tokens[-1][is_token]] = end + np.flatnonzero(is_token)
            groups.append((slice(end, end + len(is_token)), len(own)))
            end += len(is_token)
        return cls(tuple(groups), end, upload.add(np.concatenate([*tokens, places])))


def _padded_length(length: int) -> int:
    return max(MIN_PADDED_LENGTH, 1 << (length - 1).bit_length())

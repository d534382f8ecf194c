"""Which tokens of a packed batch use which PET (paper, section 6.3)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from inference.hplm.bucketed_linear import add_product, padded_linear
from inference.hplm.upload import Upload

if TYPE_CHECKING:
    from inference.hplm.pets.packed import PackedPet, PetLayout


class HasPet(Protocol):
    """A part of a batch with one PET."""

    @property
    def pet(self) -> "PackedPet": ...


MIN_TOGETHER: Final = 4
"""So many PETs have fewer launches together than each by itself."""
Laid = TypeVar("Laid", bound=HasPet)


@dataclass(frozen=True, slots=True, eq=False)
class PetSegment:
    """Tokens `begin` to `end` of a packed batch, which use one PET."""

    pet: "PackedPet"
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class PaddedTokens:
    """The tokens of S segments side by side, as a batched product takes them.

    computed: numbers [S, m] int64 of the tokens, filled up with the last one of the segment. kept: which of
    the S * m are no filling [R] int64. tokens: the numbers of these [R] int64.
    """

    computed: Tensor
    kept: Tensor
    tokens: Tensor


class BatchTokens:
    """The `count` tokens of a packed batch, and by what those of its segments are found on the device that
    computes; all of it is copied there at once.

    number_of_pet: for each token [N] int64 the number of its segment, from 1, and 0 where it has no PET.
    """

    def __init__(self, segments: Sequence[PetSegment], count: int, device: torch.device) -> None:
        self.count = count
        upload = Upload(device)
        numbers = np.zeros(count, dtype=np.int64)
        for number, segment in enumerate(segments, start=1):
            numbers[segment.begin : segment.end] = number
        sent = upload.add(numbers)
        padded = {
            id(same[0].pet.layout): [upload.add(array) for array in _padded(same)]
            for same in (by_layout(segments) if device.type == "cuda" else ())
            if len(same) >= MIN_TOGETHER
        }
        self.number_of_pet = sent.tensor
        self._padded = {key: PaddedTokens(*(one.tensor for one in arrays)) for key, arrays in padded.items()}

    def padded(self, layout: "PetLayout") -> PaddedTokens | None:
        """The tokens of the segments whose PETs have that layout, on an accelerator, if they are many."""
        return self._padded.get(id(layout))


def by_layout(segments: Iterable[Laid]) -> list[list[Laid]]:
    """Segments whose PETs have the same parts, together."""
    found: dict[int, list[Laid]] = {}
    for segment in segments:
        found.setdefault(id(segment.pet.layout), []).append(segment)
    return [*found.values()]


def _padded(segments: Sequence[PetSegment]) -> tuple[NDArray[np.int64], ...]:
    """What `PaddedTokens` has of these segments."""
    begins = np.array([segment.begin for segment in segments])[:, None]
    ends = np.array([segment.end for segment in segments])[:, None]
    wanted = begins + np.arange((ends - begins).max())
    computed = np.minimum(wanted, ends - 1)
    kept = np.flatnonzero(wanted < ends)
    return computed, kept, computed.reshape(-1)[kept]


class PetTokens:
    """What a layer asks of a segment: the `row` [width] of its PET in this layer, the tensors in it, the
    kinds that the PET consists of, and its own tokens among the `batch`."""

    def __init__(self, segment: PetSegment, row: Tensor, batch: BatchTokens) -> None:
        self.pet, self.row, self.batch = segment.pet, row, batch
        self.kinds, self.spec = self.pet.layout.kinds, self.pet.layout.spec
        self.tensors: Mapping[str, Tensor] = self.pet.layout.views(row)
        self._begin, self._end = segment.begin, segment.end

    def tensor(self, name: str) -> Tensor | None:
        """The PET's tensor of that name, None where it has none."""
        return self.tensors.get(name)

    @property
    def has_all_tokens(self) -> bool:
        """Whether the batch has no tokens of others."""
        return self._end - self._begin == self.batch.count

    def tokens(self, states: Tensor) -> Tensor:
        """The segment's own part of states [N, ...]."""
        return states[self._begin : self._end]

    def product(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """Outputs [n, out] of the segment's part of `hidden` [N, in]."""
        return padded_linear(self.tokens(hidden), weight, None)

    def add_product(self, to: Tensor, hidden: Tensor, weight: Tensor) -> None:
        """Add the outputs of `hidden` [n, in] to the segment's part of `to` [N, out]."""
        add_product(self.tokens(to), hidden, weight)

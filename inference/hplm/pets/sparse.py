"""Sparse changes of the weights: hidden ones (MaskBert) and changed ones (Diff-pruning).

They are trained as tensors of the size of the weights, of which a fixed number of entries counts, and served
as sparse matrices: the shared product stays X W, and X (W' - W) is added for the tokens of the model (PetS,
section 3.1).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from inference.hplm.pets.kind import Change, PetKind, PetTensors
from inference.hplm.pets.segments import PetTokens
from inference.hplm.pets.spec import PLACES, PetSpec, UpperShape

DIFF_RATE: Final = 0.05


class SparseKind(PetKind, ABC):
    """`<name>.<place>` [L, out, in], of which as many entries of each layer count as the spec says."""

    has_values: bool
    """Whether an entry that counts has a value, or a position alone."""

    @abstractmethod
    def share(self, spec: PetSpec) -> float:
        """The share of the weights of each map that it changes; 0: none."""

    @abstractmethod
    def chosen(self, tensor: Tensor, count: int) -> Tensor:
        """The positions [L, count] int64 of the entries of a tensor [L, out, in] that count, each in its
        flattened layer, ascending."""

    @abstractmethod
    def dense(self, at: Tensor, values: Tensor | None, size: tuple[int, ...]) -> Tensor:
        """The tensor of this size [L, out, in] with these `chosen` entries, and their values [L, count]."""

    @abstractmethod
    def added(self, weight: Tensor, at: Tensor, values: Tensor | None) -> Tensor:
        """What is added to the weights [out, in] at these positions [k] of the flattened matrix."""

    def shapes(self, spec: PetSpec, shape: UpperShape) -> Iterator[tuple[str, tuple[int, ...]]]:
        for place in PLACES if self.share(spec) else ():
            into, out = shape.sizes(place)
            yield f"{self.name}.{place}", (shape.layers, out, into)

    def count(self, spec: PetSpec, weights: int) -> int:
        """The entries that count, of a map of so many weights."""
        return max(1, round(self.share(spec) * weights))

    def change(
        self,
        pets: Sequence[PetTokens],
        modules: Mapping[str, nn.Linear],
        hidden: Tensor,
        results: Mapping[str, Tensor],
    ) -> None:
        for pet in pets:
            # PyTorch has no sparse products in half precision on a CPU.
            own = pet.tokens(hidden).float().t()
            for place, result in results.items():
                if (entries := pet.tensor(f"{self.name}.{place}")) is not None:
                    weight = modules[place].weight
                    ends, columns = entries[: len(weight) + 1], entries[len(weight) + 1 :]
                    at = flat_positions(ends, columns, weight.shape[1])
                    values = self.added(weight, at, pet.tensor(f"{self.name}.{place}.values")).float()
                    matrix = torch.sparse_csr_tensor(
                        ends, columns, values, tuple(weight.shape), check_invariants=False
                    )
                    pet.tokens(result).add_((matrix @ own).t())


class Mask(SparseKind):
    """MaskBert (Zhao et al. 2020): a share of the weights of each map is hidden. A score for each weight
    learns which; those with the least scores are."""

    name = "mask"
    has_values = False

    def share(self, spec: PetSpec) -> float:
        return spec.mask

    def begin(self, tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
        for place, weight in weights.items():
            if (scores := tensors.get(f"{self.name}.{place}")) is not None:
                scores.copy_(weight.abs() / weight.abs().amax((1, 2), keepdim=True))

    def chosen(self, tensor: Tensor, count: int) -> Tensor:
        return tensor.flatten(1).topk(count, largest=False).indices.sort().values

    def dense(self, at: Tensor, values: Tensor | None, size: tuple[int, ...]) -> Tensor:
        return torch.ones(size, device=at.device).flatten(1).scatter_(1, at.long(), 0.0).view(size)

    def added(self, weight: Tensor, at: Tensor, values: Tensor | None) -> Tensor:
        return -weight.reshape(-1)[at]

    def learn(self, pet: PetTensors, place: str, weight: Tensor, hidden: Tensor) -> Change:
        scores = pet.tensor(f"{self.name}.{place}")
        if scores is None:
            return None, None
        threshold = scores.detach().flatten().kthvalue(self.count(pet.spec, scores.numel())).values
        kept = (scores > threshold).to(scores.dtype)
        # Straight through: the gradient of a mask's entry is that of its score.
        return weight * (kept - 1 + scores - scores.detach()), None


class Diff(SparseKind):
    """Diff-pruning (Guo et al. 2021), by magnitude: a share of the weights of each map is changed. All
    changes learn, and those that are largest count."""

    name = "diff"
    rate = DIFF_RATE
    has_values = True

    def share(self, spec: PetSpec) -> float:
        return spec.diff

    def chosen(self, tensor: Tensor, count: int) -> Tensor:
        return tensor.abs().flatten(1).topk(count).indices.sort().values

    def dense(self, at: Tensor, values: Tensor | None, size: tuple[int, ...]) -> Tensor:
        assert values is not None
        return values.new_zeros(size).flatten(1).scatter_(1, at.long(), values).view(size)

    def added(self, weight: Tensor, at: Tensor, values: Tensor | None) -> Tensor:
        assert values is not None
        return values

    def learn(self, pet: PetTensors, place: str, weight: Tensor, hidden: Tensor) -> Change:
        changes = pet.tensor(f"{self.name}.{place}")
        if changes is None:
            return None, None
        sizes = changes.detach().abs()
        count = self.count(pet.spec, sizes.numel())
        least = sizes.flatten().kthvalue(sizes.numel() - count + 1).values
        counted = changes * (sizes >= least)
        # Straight through: also what does not count yet learns.
        return changes + (counted - changes).detach(), None


def csr_entries(at: Tensor, size: tuple[int, int]) -> Tensor:
    """Positions [L, k] of entries of flattened matrices [out, in], ascending, as compressed sparse rows:
    where each row ends, from 0 on, and the column of each entry [L, out + 1 + k] int32."""
    out, into = size
    starts = (torch.arange(out + 1) * into).expand(len(at), -1).contiguous()
    ends = torch.searchsorted(at.long().contiguous(), starts)
    return torch.cat((ends, at % into), dim=1).int()


def flat_positions(ends: Tensor, columns: Tensor, into: int) -> Tensor:
    """The positions [k] int64 that `csr_entries` were made of, in one layer."""
    rows = torch.arange(len(ends) - 1, device=ends.device)
    return rows.repeat_interleave(ends.diff(), output_size=len(columns)) * into + columns

"""Which stages of consecutive batches overlap (paper sections 6.1 and 6.2); nothing that computes."""

from dataclasses import dataclass
from enum import StrEnum


class Swapping(StrEnum):
    """When the adapters of a batch are brought to the device."""

    NONE = "none"
    """In the batch's own turn, all layers before the first computes."""
    COARSE = "coarse"
    """All layers ahead of its turn, while the batch before computes."""
    FINE = "fine"
    """Layer by layer, those of layer j + 1 while layer j computes; the first ones ahead of its turn."""


@dataclass(frozen=True, slots=True)
class Pipelining:
    """What overlaps. retrieval: of the next batch, with this one's computing. parallel_batches: how many
    batches compute side by side, each in a thread of its own; 0 for one, in the thread that ends it."""

    retrieval: bool = True
    swapping: Swapping = Swapping.FINE
    parallel_batches: int = 0

    @property
    def at_once(self) -> int:
        """So many batches compute at the same time."""
        return max(1, self.parallel_batches)


SYNCHRONISED = Pipelining(retrieval=False, swapping=Swapping.NONE)

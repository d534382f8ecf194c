"""What a PET (parameter-efficient tuning) changes, and the sizes of the layers that it changes."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from inference.errors import HplmError

PLACES: Final = ("query", "key", "value", "output", "expand", "contract")
"""The linear layers of a transformer block, in order of use."""
NORMS: Final = ("attention", "output")

MAX_SHARE: Final = 0.5
"""Of the weights that may be hidden or changed. What is denser is no PET."""


@dataclass(frozen=True, slots=True)
class PetSpec:
    """The parts of a PET.

    adapter, output_adapter: width of the adapters after attention and after the feed-forward block; 0: none.
    lora: rank of LoRA in the linear layers `lora_places`; 0: none. biases, norms: deltas of those parameters.
    mask, diff: the share of the weights of each linear layer that is hidden, and that is changed; 0: none.
    """

    adapter: int = 0
    output_adapter: int = 0
    lora: int = 0
    lora_places: tuple[str, ...] = PLACES
    biases: bool = False
    norms: bool = False
    mask: float = 0.0
    diff: float = 0.0

    def __post_init__(self) -> None:
        unknown = sorted(set(self.lora_places) - set(PLACES))
        if unknown:
            raise HplmError(
                "invalid_field", f"LoRA has no place {unknown[0]!r}; the places are {', '.join(PLACES)}"
            )
        if min(self.adapter, self.output_adapter, self.lora) < 0:
            raise HplmError("invalid_field", "the sizes of a PET must not be negative")
        if not (0 <= self.mask <= MAX_SHARE and 0 <= self.diff <= MAX_SHARE):
            raise HplmError("invalid_field", f"the shares of a PET must be between 0 and {MAX_SHARE}")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lora_places": list(self.lora_places)}


@dataclass(frozen=True, slots=True)
class UpperShape:
    """The number of upper layers, the hidden size, and the size of the feed-forward block."""

    layers: int
    hidden: int
    inner: int

    def sizes(self, place: str) -> tuple[int, int]:
        """(input, output) size of a linear layer."""
        if place == "expand":
            return self.hidden, self.inner
        return (self.inner, self.hidden) if place == "contract" else (self.hidden, self.hidden)

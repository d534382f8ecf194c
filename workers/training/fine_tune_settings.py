"""How a model is fine-tuned, and with what parts of a PET (paper section 5.2)."""

import math
from dataclasses import dataclass

from inference.hplm.pets import PetSpec
from workers.training.lower_states import LowerWay

RATES_TRIED = (1.0, 0.5, 2.0)
USUAL_EPOCHS = 8


@dataclass(frozen=True, kw_only=True)
class FineTuneSettings:
    """adapter, output_adapter, lora, biases, norms: the parts of the PET (see `PetSpec`). pooling: what the
    head of a text reads. trials: learning rates tried, `learning_rate` itself first, then half and twice it.
    epochs: passes over the training split, exactly as many. None: `USUAL_EPOCHS`, or as many as it takes to
    make `minimum_steps` steps where the split is small, but at most `most_epochs`. patience: epochs without a
    better dev metric after which training stops; the learning rate falls to zero over all epochs, so late
    ones may gain most. mix: share of the training texts that are read through the original lower layers
    instead of the tables, so that one PET serves both. balance: rare classes count for more in the loss.
    lower_way: how the lower half of a text is made (see `lookup.WAYS`).
    """

    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    adapter: int = 0
    output_adapter: int = 0
    lora: int = 48
    biases: bool = True
    norms: bool = True
    pooling: str = "cls_mean"
    learning_rate: float = 1e-3
    trials: int = 1
    batch: int = 16
    epochs: int | None = None
    minimum_steps: int = 200
    most_epochs: int = 30
    patience: int = 8
    dropout: float = 0.1
    mix: float = 0.5
    balance: bool = False
    lower_way: LowerWay = "fallback"

    @property
    def spec(self) -> PetSpec:
        """The parts of the PET."""
        return PetSpec(
            adapter=self.adapter,
            output_adapter=self.output_adapter,
            lora=self.lora,
            biases=self.biases,
            norms=self.norms,
        )

    def epochs_of(self, steps: int) -> int:
        """How many epochs of so many steps are made at most."""
        if self.epochs is not None:
            return self.epochs
        return min(max(USUAL_EPOCHS, math.ceil(self.minimum_steps / steps)), self.most_epochs)

    @property
    def learning_rates(self) -> list[float]:
        """The learning rates to try."""
        return [self.learning_rate * factor for factor in RATES_TRIED[: self.trials]]

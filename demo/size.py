"""The size of the demo: an option scales it down."""

import math
from dataclasses import dataclass
from typing import Any, Final

FULL: Final = 1.0


EPOCHS: Final = 3


MIN_STEPS: Final = 250


TEST_PROMPTS: Final = 20


MIN_TOKENS: Final = 1_000


BATCH_SIZE: Final = 16
"""The default batch size of a fine-tune job."""


@dataclass(frozen=True, slots=True)
class DemoSize:
    """The amounts of the demo at a scale from 0 to 1; 1 is the demo that the README shows."""

    scale: float = FULL

    def scaled(self, amount: int, *, minimum: int = 1) -> int:
        """The amount at this scale, at least `minimum`."""
        return max(minimum, round(amount * self.scale))

    @property
    def convert(self) -> dict[str, Any]:
        """Settings of the convert job: the closed form and the mixer. A distillation would take minutes."""
        return {
            "ridge_tokens": self.scaled(12_000, minimum=MIN_TOKENS),
            "mixer_tokens": self.scaled(20_000, minimum=MIN_TOKENS),
            "distil_tokens": 0,
        }

    @property
    def further_pretrain(self) -> dict[str, Any]:
        """Settings of the further-pretrain job."""
        return {
            "tokens": self.scaled(30_000, minimum=MIN_TOKENS),
            "head_tokens": self.scaled(20_000, minimum=MIN_TOKENS),
        }

    def fine_tune(self, rows: int) -> dict[str, Any]:
        """Settings of a fine-tune job for this many training rows: 3 epochs, or enough for 250 steps at full
        size."""
        steps = math.ceil(rows / BATCH_SIZE)
        return {"epochs": max(EPOCHS, math.ceil(self.scaled(MIN_STEPS) / steps))}

    @property
    def fine_tune_generative(self) -> dict[str, Any]:
        """Settings of the fine-tune job of a generative model."""
        return {
            "epochs": 2,
            "learning_rate": 2e-3,
            "batch_tokens": 512,
            "test_prompts": self.scaled(TEST_PROMPTS, minimum=4),
            "new_tokens": 40,
        }

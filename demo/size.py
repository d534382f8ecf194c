"""How big the demo is: ``HMI_DEMO_SCALE`` makes a smaller one of the same shape."""

import math
from dataclasses import dataclass
from typing import Any, Final

FULL: Final = 1.0


EPOCHS: Final = 4


MIN_STEPS: Final = 200


BATCH: Final = 16
"""Rows of a step, as the product's own settings have it."""


@dataclass(frozen=True, slots=True)
class DemoSize:
    """Every amount of the demo, from one scale (0 to 1; 1 is the demo that the README shows)."""

    scale: float = FULL

    def share(self, amount: int, *, least: int = 1) -> int:
        """That share of an amount."""
        return max(least, round(amount * self.scale))

    @property
    def convert(self) -> dict[str, Any]:
        """Settings of the convert job: a seventh of the product's own, for a demo that is soon there."""
        return self._settings(ridge_tokens=60_000, distil_tokens=140_000)

    @property
    def further_pretrain(self) -> dict[str, Any]:
        """Settings of the further-pretrain job."""
        return self._settings(tokens=80_000, head_tokens=60_000)

    def fine_tune(self, rows: int) -> dict[str, Any]:
        """Settings of a fine-tune job that learns from so many rows: 4 epochs, fewer than the product's own,
        or as many as make 200 steps at full size."""
        steps = math.ceil(rows / BATCH)
        return {"epochs": max(EPOCHS, math.ceil(self.share(MIN_STEPS) / steps))}

    def _settings(self, **amounts: int) -> dict[str, Any]:
        return {
            name: self.share(amount, least=1_000 if "tokens" in name else 1)
            for name, amount in amounts.items()
        }

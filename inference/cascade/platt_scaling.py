"""Platt scaling: the probability that an answer of several choices is right."""

import math
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

ODDS_BOUND: Final = 1e-6
"""Probabilities nearer to 0 or 1 than this are taken for it."""
Coefficient = Annotated[float, Meta(ge=-1e6, le=1e6)]
"""Beyond these bounds numbers overflow; none that is fitted comes near them."""


@dataclass(frozen=True, slots=True)
class PlattScaling:
    """A logistic from the log-odds of a confidence to the probability that the answer is right (Platt, 1999).

    A temperature calibrates single choices. The least sure of several tags or labels leaves the others out,
    and the ends of a span depend on each other: this logistic makes up for both.
    """

    intercept: Coefficient = 0.0
    slope: Annotated[float, Meta(ge=0, le=1e6)] = 1.0

    def probability(self, confidence: float) -> float:
        """The probability that an answer of this confidence is right; UNSCALED leaves it exactly as it is."""
        if self == UNSCALED:
            return confidence
        return sigmoid(self.intercept + self.slope * log_odds(confidence))


UNSCALED: Final = PlattScaling()


def log_odds(probability: float) -> float:
    """The log-odds of a probability, within those of ODDS_BOUND."""
    bounded = min(max(probability, ODDS_BOUND), 1 - ODDS_BOUND)
    return math.log(bounded / (1 - bounded))


def sigmoid(value: float) -> float:
    """The probability of these log-odds."""
    return 1 / (1 + math.exp(-max(-500.0, min(value, 500.0))))

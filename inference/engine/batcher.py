"""Which rows go into the next step, and what a step takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

FIRST_TOKEN_S: Final = 1e-5
FIRST_FIXED_S: Final = 256 * FIRST_TOKEN_S
KEPT: Final = 0.98
"""What a step weighs after the next one, when costs are learnt."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """At most ``rows`` rows and ``tokens`` tokens in a step; a row longer than that goes alone."""

    rows: int = 32
    tokens: int = 8192

    def __post_init__(self) -> None:
        if self.rows < 1 or self.tokens < 1:
            raise ValueError("a batch has room for at least one row of one token")


def batch_size(lengths: Sequence[int], limits: BatchLimits) -> int:
    """How many of the first among waiting rows of ``lengths`` tokens go into the next batch; one at least,
    where there is one. Rows are packed, so that it does not matter which lengths meet."""
    tokens = 0
    for count, length in enumerate(lengths[: limits.rows]):
        tokens += length
        if count and tokens > limits.tokens:
            return count
    return min(len(lengths), limits.rows)


class StepCosts:
    """What the steps of one executor take: something fixed and something for each token, in seconds, learnt
    from the steps themselves (least squares, older steps weigh less)."""

    def __init__(self, fixed_s: float = FIRST_FIXED_S, token_s: float = FIRST_TOKEN_S) -> None:
        self.fixed_s, self.token_s = fixed_s, token_s
        self._moments = np.zeros(5)

    def learn(self, tokens: int, seconds: float) -> None:
        """A step of so many tokens took ``seconds`` in all."""
        if self._moments.any():
            # A step that waited for something else, such as a file, says little about the next.
            seconds = min(seconds, 4 * self.of(tokens))
        self._moments *= KEPT
        self._moments += (1.0, tokens, seconds, tokens * tokens, tokens * seconds)
        mean, took, squares, products = (self._moments[1:] / self._moments[0]).tolist()
        # While all batches are alike, all that they take is taken to be for their tokens.
        doubt = (0.1 * mean) ** 2
        slope = (products - mean * took + doubt * took / mean) / (squares - mean * mean + doubt)
        self.token_s = min(max(slope, 0.0), took / mean)
        self.fixed_s = took - self.token_s * mean

    def of(self, tokens: int) -> float:
        """Seconds of a step of so many tokens."""
        return self.fixed_s + self.token_s * tokens

    def rows_in(self, stretch: float, length: int, limits: BatchLimits) -> int:
        """How many rows of that length a batch may have to take at most ``stretch`` times as long as one."""
        room = stretch * self.of(length) - self.fixed_s
        rows = int(room / max(self.token_s * length, 1e-12))
        return max(1, min(rows, limits.rows, limits.tokens // length))

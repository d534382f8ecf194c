"""Which rows go into the next step."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """At most ``rows`` rows and, padding included, ``tokens`` tokens in a step; a row longer than that goes
    alone."""

    rows: int = 32
    tokens: int = 8192

    def __post_init__(self) -> None:
        if self.rows < 1 or self.tokens < 1:
            raise ValueError("a batch has room for at least one row of one token")


def next_batch(lengths: Sequence[int], limits: BatchLimits) -> list[int]:
    """Positions of the rows to compute next among waiting rows of ``lengths`` tokens, oldest first.

    The oldest row always goes, so nothing waits for ever; it is joined by the rows nearest to it in length,
    so that little is padded.
    """
    if not lengths:
        return []
    oldest = lengths[0]
    nearest = sorted(range(len(lengths)), key=lambda at: (abs(lengths[at] - oldest), at))
    chosen: list[int] = []
    longest = 0
    for at in nearest:
        longest_then = max(longest, lengths[at])
        if chosen and (len(chosen) == limits.rows or longest_then * (len(chosen) + 1) > limits.tokens):
            break
        chosen.append(at)
        longest = longest_then
    return sorted(chosen)

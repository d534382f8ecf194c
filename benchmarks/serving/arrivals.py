"""When requests arrive, and whose they are: two patterns of HMI and one of Punica. Drawn once, so that every
scheme is asked the same at the same moments."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """at [N]: seconds after the start, ascending; tenants [N]: whose."""

    at: NDArray[np.float64]
    tenants: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.at)


def steady(tenants: int, *, every_s: float, seconds: float, seed: int) -> Arrivals:
    """Every tenant asks each ``every_s`` seconds, the first time at a moment of its own (figure 12)."""
    first = np.random.default_rng(seed).uniform(0, every_s, tenants)
    rounds = np.arange(np.ceil(seconds / every_s))
    found = _in_order(first[:, None] + every_s * rounds)
    count = int(np.searchsorted(found.at, seconds))
    return Arrivals(found.at[:count], found.tenants[:count])


def ramp(shares: NDArray[np.float64], *, peak: float, seconds: float, seed: int) -> Arrivals:
    """A Poisson process whose rate rises from 0 to ``peak`` requests a second and falls back to 0 (Punica,
    figure 13). shares [tenants]: how many of the requests are each tenant's; they sum to 1."""
    draw = np.random.default_rng(seed)
    # Given how many there are, the moments of a Poisson process are independent draws from its rate.
    count = int(draw.poisson(peak * seconds / 2))
    at = np.sort(draw.triangular(0, seconds / 2, seconds, count))
    return Arrivals(at, draw.choice(len(shares), count, p=shares))


def _in_order(moments: NDArray[np.float64]) -> Arrivals:
    """Of the moments [tenants, requests]."""
    at, tenants = moments.ravel(), np.repeat(np.arange(len(moments)), moments.shape[1])
    order = np.argsort(at, kind="stable")
    return Arrivals(at[order], tenants[order])

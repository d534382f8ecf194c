"""What the simulated cluster is asked: arrivals, models, and the lengths of prompts and answers."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.serving.arrivals import ramp

POPULARITIES: Final = ("skewed", "uniform", "distinct")
SKEW: Final = 1.5
"""A model gets so many times as many requests as the next popular one (Punica, section 7)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: seconds after the start, its model, tokens of the prompt, tokens that are generated."""

    at: float
    model: int
    prompt: int
    answer: int


Lengths = NDArray[np.int64]
"""[N, 2]: tokens of a prompt and of its answer."""


def trace_lengths(trace: Path, *, longest: int) -> Lengths:
    """The lengths of an Azure trace. Prompts are cut where a request exceeds ``longest`` tokens."""
    with trace.open(encoding="utf-8", newline="") as lines:
        found = [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(lines)]
    lengths = np.array(found, dtype=np.int64)
    lengths[:, 1] = lengths[:, 1].clip(1, longest - 1)
    lengths[:, 0] = lengths[:, 0].clip(1, longest - lengths[:, 1])
    return lengths


def shares(popularity: str, requests: int) -> NDArray[np.float64]:
    """The share of each model in the requests, as in Punica: all different, ⌈√n⌉ models alike, or skewed."""
    if popularity == "skewed":
        falling = SKEW ** -np.arange(64.0)
        skewed: NDArray[np.float64] = falling / falling.sum()
        return skewed
    models = requests if popularity == "distinct" else int(np.ceil(np.sqrt(requests)))
    return np.full(models, 1 / models)


def draw(lengths: Lengths, popularity: str, *, peak: float, seconds: float, seed: int) -> list[Asked]:
    """An hour, or so many seconds, of requests; each is as long as a random one of ``lengths``."""
    expected = max(1, round(peak * seconds / 2))
    arrivals = ramp(shares(popularity, expected), peak=peak, seconds=seconds, seed=seed)
    chosen = lengths[np.random.default_rng(seed + 1).integers(len(lengths), size=len(arrivals))]
    columns = arrivals.at.tolist(), arrivals.tenants.tolist(), *chosen.T.tolist()
    return [Asked(*row) for row in zip(*columns, strict=True)]

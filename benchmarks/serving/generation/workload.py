"""What the engine is asked: models by popularity, lengths of an Azure trace."""

import csv
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy.data import data_dir, has_data
from benchmarks.serving.generation.engine import Asked
from benchmarks.serving.popularity import SKEW

TRACE = "azure-llm-2023-conv.csv"
LONGEST = 4096
MEDIANS, SPREADS = (1020, 129), (1.0, 1.0)
"""Tokens of prompts and answers in that trace (Splitwise, Patel et al., 2024), and how their logarithms
are spread here."""
DRAWN = 2000
Lengths = NDArray[np.int64]
"""[N, 2]: tokens of a prompt and of its answer."""


def models(popularity: str, tenants: int, requests: int, seed: int) -> list[int]:
    """The model of each of so many requests of so many tenants (Punica, section 7). Those of "distinct"
    are others for each seed, as far as there are others."""
    draw = np.random.default_rng(seed)
    if popularity == "distinct":
        return [(seed * requests + number) % tenants for number in range(requests)]
    if popularity == "uniform":
        uniform: list[int] = draw.integers(math.ceil(math.sqrt(tenants)), size=requests).tolist()
        return uniform
    if popularity == "skewed":
        falling = SKEW ** -np.arange(min(tenants, 64.0))
        skewed: list[int] = draw.choice(len(falling), requests, p=falling / falling.sum()).tolist()
        return skewed
    return [0] * requests


def lengths(trace: Path | None, scale: int) -> Lengths:
    """Tokens of prompts and answers [N, 2] of a trace, divided by `scale`. None: of that in HMI_DATA_DIR, and
    without such a folder those of `drawn_lengths`."""
    if trace is None and not has_data():
        found = drawn_lengths()
    else:
        found = trace_lengths(trace or data_dir() / "traces" / TRACE, longest=LONGEST)
    return np.maximum(found // scale, 1)


def trace_lengths(trace: Path, *, longest: int) -> Lengths:
    """The lengths of an Azure trace. Prompts are cut where a request exceeds ``longest`` tokens."""
    with trace.open(encoding="utf-8", newline="") as lines:
        found = [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(lines)]
    lengths = np.array(found, dtype=np.int64)
    lengths[:, 1] = lengths[:, 1].clip(1, longest - 1)
    lengths[:, 0] = lengths[:, 0].clip(1, longest - lengths[:, 1])
    return lengths


def drawn_lengths() -> Lengths:
    """Random lengths [N, 2] with the medians of the trace."""
    draw = np.random.default_rng(0).lognormal(np.log(MEDIANS), SPREADS, size=(DRAWN, 2))
    return draw.astype(np.int64).clip(1, LONGEST // 2)


def draw(choice: Lengths, popularity: str, tenants: int, requests: int, seed: int) -> list[Asked]:
    """Requests, each as long as a random one of `choice`; the same lengths for every popularity."""
    picked = choice[np.random.default_rng(seed + 1000).integers(len(choice), size=requests)].tolist()
    return [
        Asked(model, prompt, answer)
        for model, (prompt, answer) in zip(models(popularity, tenants, requests, seed), picked, strict=True)
    ]

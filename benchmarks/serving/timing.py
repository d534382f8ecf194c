"""Timing two or more ways of doing the same, fairly: interleaved in one run, medians over repeats."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TypeVar

import torch

from benchmarks.harness import Row

Name = TypeVar("Name")


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds of every repeat."""

    seconds: Sequence[float]

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = quantiles(self.seconds, n=4)
        return (high - low) / 2 / self.median


def interleaved(
    ways: Mapping[Name, Callable[[int], float]], *, repeats: int, warm_up: int = 1
) -> dict[Name, Sample]:
    """Every way once, then every way again: what slows the machine down for a while slows all of them. A way
    is given the number of the repeat and says how many seconds it took."""
    found: dict[Name, list[float]] = {name: [] for name in ways}
    for repeat in range(-warm_up, repeats):
        for name, run in ways.items():
            seconds = run(repeat)
            if repeat >= 0:
                found[name].append(seconds)
    return {name: Sample(seconds) for name, seconds in found.items()}


def rates(title: str, found: Mapping[str, Sample], *, batches: int, rows: int) -> list[Row]:
    """A table of ways that each ran so many batches of so many rows."""
    return [
        {
            title: name,
            "ms a batch": 1000 * sample.median / batches,
            "spread": sample.spread,
            "rows a second": batches * rows / sample.median,
        }
        for name, sample in found.items()
    ]


def settled(device: torch.device) -> None:
    """Wait until an accelerator has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)

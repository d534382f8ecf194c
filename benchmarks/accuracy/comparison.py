"""The tables of the accuracy benchmark: test metrics of methods and levels by dataset."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from benchmarks import harness
from benchmarks.accuracy.data import Dataset
from benchmarks.accuracy.methods import HBERT, Method
from benchmarks.accuracy.schedule import Schedule
from benchmarks.accuracy.trainings import Shape

LEVELS: Final = {"hBERT": "cascade", "hBERT, table": "table", "hBERT, full": "full"}
"""The rows of the product's model, by what answers. The first serves by default."""
MISSING: Final = "–"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A method with roots of this shape; None: the usual one."""

    method: Method
    shape: Shape | None = None


def compare(schedule: Schedule, datasets: Sequence[Dataset], wanted: Sequence[Wanted]) -> list[harness.Row]:
    """Train and test what is missing, seed by seed; then a row for each method and level, a column for each
    dataset. Seeds that are missing are marked."""
    for seed in schedule.seeds:
        for dataset in datasets:
            for one in wanted:
                schedule.result(one.method, dataset, seed, shape=one.shape)
    return [row for one in wanted for row in _rows(schedule, datasets, one)]


def _rows(schedule: Schedule, datasets: Sequence[Dataset], wanted: Wanted) -> Iterator[harness.Row]:
    found = {one.name: schedule.results(wanted.method, one, shape=wanted.shape) for one in datasets}
    levels = LEVELS if wanted.method is HBERT else {wanted.method.name: None}
    for name, level in levels.items():
        values = {
            dataset: [100 * (one["levels"][level] if level else one["test"]) for one in results]
            for dataset, results in found.items()
        }
        yield {
            "method": name + (f" ({wanted.shape})" if wanted.shape else ""),
            **{dataset: _text(given, len(schedule.seeds)) for dataset, given in values.items()},
            "mean": fmean(map(fmean, values.values())) if all(values.values()) else MISSING,
        }


def _text(values: Sequence[float], seeds: int) -> str:
    if not values:
        return MISSING
    return mean_and_deviation(values) + ("" if len(values) == seeds else f" [{len(values)} of {seeds}]")


def mean_and_deviation(values: Sequence[float]) -> str:
    """The mean of at least one value, and the deviation of several."""
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")

"""A larger root's models beside the small one's and beside fine-tuning of every parameter, none below a
domain."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from benchmarks import harness
from benchmarks.accuracy.comparison import MISSING, mean_and_deviation
from benchmarks.accuracy.data import DATASETS, cheapest_first
from benchmarks.accuracy.methods import DEDICATED, HBERT
from benchmarks.accuracy.schedule import Schedule

COMPARED: Final = ("chemprot", "NCBI-disease", "sst2", "mrpc")
SMALL: Final = "MiniLM"
LARGER: Final = "larger"
LEVELS: Final = ("table", "cascade", "full")
Points = Mapping[str, Mapping[str, Sequence[float]]]
"""By what answers and dataset, those of each seed."""


class LargerRoot:
    """Trains what is missing on both roots, seed by seed; what is kept is not trained again.

    small, larger: of the two checkpoints, with the same rows and settings.
    """

    def __init__(self, small: Schedule, larger: Schedule) -> None:
        self._schedules = {SMALL: small, LARGER: larger}
        self._datasets = cheapest_first(DATASETS[name] for name in COMPARED)

    def run(self) -> dict[str, Points]:
        """The test points of each root's models: the product's at each level, and dedicated ones."""
        for seed in self._schedules[SMALL].seeds:
            for dataset in self._datasets:
                for schedule in self._schedules.values():
                    schedule.result(HBERT, dataset, seed, on_root=True)
        return {name: self._points(schedule) for name, schedule in self._schedules.items()}

    def conversion(self) -> harness.Row:
        """The report of the larger root's conversion, with its seconds."""
        branches = self._schedules[LARGER].bench.branches
        return branches.root(branches.shape).report

    def _points(self, schedule: Schedule) -> Points:
        product = {one.name: schedule.results(HBERT, one, on_root=True) for one in self._datasets}
        dedicated = {one.name: schedule.results(DEDICATED, one) for one in self._datasets}
        points: dict[str, Mapping[str, Sequence[float]]] = {}
        for level in LEVELS:
            points[level] = {
                name: [100 * one["levels"][level] for one in results] for name, results in product.items()
            }
        points["every parameter"] = {
            name: [100 * one["test"] for one in results] for name, results in dedicated.items()
        }
        return points


def rows(found: Mapping[str, Points]) -> list[harness.Row]:
    """Test metrics in points by root and by what answers."""
    return [
        {"root": root, "answers": way}
        | {name: mean_and_deviation(values) if values else MISSING for name, values in of.items()}
        for root, ways in found.items()
        for way, of in ways.items()
    ]


def figures(found: Mapping[str, Points], conversion: Mapping[str, Any]) -> dict[str, float]:
    """Of datasets that both roots have: what the larger root gains in full, and loses at its table."""
    gains = _differences(found[LARGER]["full"], found[SMALL]["full"])
    drops = _differences(found[LARGER]["full"], found[LARGER]["table"])
    known = {"mpnet_gain_points": gains, "mpnet_table_drop": drops}
    means = {name: fmean(values) for name, values in known.items() if values}
    return means | {"mpnet_convert_s": float(conversion["seconds"])}


def _differences(high: Mapping[str, Sequence[float]], low: Mapping[str, Sequence[float]]) -> list[float]:
    return [fmean(high[name]) - fmean(low[name]) for name in high if high[name] and low.get(name)]

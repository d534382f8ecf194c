"""The tables and figures of the frontier, from what was measured; cells that are not covered are marked."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Final

from benchmarks.frontier.levels import CUTOFFS
from benchmarks.frontier.measurements import LOSSES, Cell, Found, cascade_name
from benchmarks.frontier.path_flips import PATHS
from benchmarks.harness import Row

MISSING: Final = "–"
DEDICATED, ADAPTER, TABLE, FULL = "dedicated", "hBERT-adapter", "table", "full"
DEFAULT: Final = cascade_name(LOSSES[0])
CASCADES: Final = tuple(map(cascade_name, LOSSES))
METHODS: Final = (DEDICATED, ADAPTER, TABLE, FULL, *CASCADES)
CALIBRATED_ROWS: Final = 1000
"""Test rows below which an ECE says little."""
MILLION: Final = 1e6
Value = Callable[[Cell], float | None]


class Figures:
    """Reads the tables and figures from the cells. Means over datasets are of the datasets' own means over
    seeds."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._by_dataset: dict[str, list[Cell]] = {}
        for cell in found.cells:
            self._by_dataset.setdefault(cell.dataset.name, []).append(cell)

    def tables(self) -> dict[str, list[Row]]:
        """By title, those that have rows."""
        tables = {
            "Test metric in points against cost": [self._method(name) for name in METHODS],
            "Tabi, table 2: the cascade beside the level full": self._per_dataset(_TABLE_2),
            "Tabi, table 3 and section 7.3.4: who goes on, pruning and the ensemble": self._per_dataset(
                _TABLE_3
            ),
            "Tabi, figure 8: answered early by cutoff": self._by_cutoff(),
            "Expected calibration error": self._per_dataset(_CALIBRATION),
            "Share of texts whose level or label differs from that of the text alone": [
                {"format": name, **{path: shares[path] for path in PATHS}}
                for name, shares in self._found.flips.items()
            ],
        }
        return {title: rows for title, rows in tables.items() if rows}

    def figures(self) -> dict[str, float]:
        """Those that other tools read; what was not measured is left out."""
        wanted = {
            "cascade_drop": self._mean(lambda cell: _difference(cell, FULL, DEFAULT)),
            "table_drop": self._mean(lambda cell: _difference(cell, FULL, TABLE)),
            "full_drop": self._mean(lambda cell: _difference(cell, DEDICATED, FULL)),
            "cascade_vs_adapter": self._mean(lambda cell: _speed_up(cell, DEFAULT)),
            "cascade_vs_adapter_bound": self._mean(lambda cell: _bound(cell, DEFAULT)),
            "cascade_vs_adapter_operations": self._mean(lambda cell: _operations_ratio(cell, DEFAULT)),
            "escalated_share": self._mean(lambda cell: _escalated(cell, DEFAULT)),
            "ece_before": self._mean(lambda cell: _ece(cell, "ece_before")),
            "ece_after": self._mean(lambda cell: _ece(cell, "ece")),
            "latency_reduction": self._mean(_latency_reduction),
            **{
                f"early_share_{cutoff:g}": self._mean(lambda cell, at=at: _early(cell, at))  # type: ignore[misc]
                for at, cutoff in enumerate(CUTOFFS)
            },
        }
        flips = {
            "path_flips" + ("" if name == "float32" else f"_{name}"): shares["any"]
            for name, shares in self._found.flips.items()
        }
        missing = sum(_metric(cell, name) is None for cell in self._found.cells for name in METHODS)
        measured = {name: value for name, value in wanted.items() if value is not None}
        return {**measured, **flips, "missing_cells": float(missing)}

    def _method(self, name: str) -> Row:
        metrics = {
            dataset: _spread(_known(_percent(_metric(cell, name)) for cell in cells))
            for dataset, cells in self._by_dataset.items()
        }
        return {
            "method": name,
            **metrics,
            "mean": _shown(_percent(self._mean(lambda cell: _metric(cell, name)))),
            "CPU ms a text": _shown(self._mean(lambda cell: _cpu_ms(cell, name))),
            "million multiplications": _shown(self._mean(lambda cell: _operations(cell, name)), 1 / MILLION),
            "p50 ms": _shown(self._mean(lambda cell: _cost(cell, name, "p50_ms"))),
            "p95 ms": _shown(self._mean(lambda cell: _cost(cell, name, "p95_ms"))),
            "escalated %": _shown(_percent(self._mean(lambda cell: _escalated(cell, name)))),
        }

    def _per_dataset(self, columns: Mapping[str, Value]) -> list[Row]:
        return [
            {"dataset": name}
            | {title: _shown(_mean_of(map(value, cells))) for title, value in columns.items()}
            for name, cells in self._by_dataset.items()
        ]

    def _by_cutoff(self) -> list[Row]:
        return [
            {
                "dataset": name,
                "cutoff": cutoff,
                "answered early %": _shown(_mean_of(_percent(_early(cell, at)) for cell in cells)),
                "metric": _shown(_mean_of(_percent(_cut(cell, at, "metric")) for cell in cells)),
                "multiplications, % of full": _shown(
                    _mean_of(_percent(_cut_operations(cell, at)) for cell in cells)
                ),
            }
            for name, cells in self._by_dataset.items()
            for at, cutoff in enumerate(CUTOFFS)
        ]

    def _mean(self, value: Value) -> float | None:
        return _mean_of(_mean_of(map(value, cells)) for cells in self._by_dataset.values())


def _metric(cell: Cell, method: str) -> float | None:
    if method in (DEDICATED, ADAPTER):
        return cell.dedicated if method == DEDICATED else cell.adapter
    return _of_levels(cell, method, "metric")


def _of_levels(cell: Cell, method: str, key: str) -> float | None:
    """Of a level or of a cascade; None if it is not covered."""
    if cell.levels is None:
        return None
    found: Mapping[str, float | None] = (
        cell.levels["cascade"][method] if method in CASCADES else cell.levels[method]
    )
    return found[key]


def _operations(cell: Cell, method: str) -> float | None:
    if cell.levels is None:
        return None
    if method == DEDICATED:
        return float(cell.levels["dedicated_operations"])
    return _of_levels(cell, FULL if method == ADAPTER else method, "operations")


def _escalated(cell: Cell, method: str) -> float | None:
    return _of_levels(cell, method, "escalated") if method in CASCADES else None


def _ece(cell: Cell, key: str) -> float | None:
    if cell.levels is None or cell.levels["rows"] < CALIBRATED_ROWS:
        return None
    return _of_levels(cell, DEFAULT, key)


def _cost(cell: Cell, method: str, key: str) -> float | None:
    """hBERT-adapter costs what the level full does: the same layers and the same PET in the same engine."""
    if cell.cost is None:
        return None
    value: float = cell.cost[FULL if method == ADAPTER else method][key]
    return value


def _cpu_ms(cell: Cell, method: str) -> float | None:
    return None if cell.cost is None else median(cell.cost[FULL if method == ADAPTER else method]["cpu_ms"])


def _difference(cell: Cell, better: str, worse: str) -> float | None:
    high, low = _metric(cell, better), _metric(cell, worse)
    return None if high is None or low is None else 100 * (high - low)


def _speed_up(cell: Cell, method: str) -> float | None:
    """hBERT-adapter's processor time over that of a cascade: the median of the repeats' own ratios."""
    if cell.cost is None:
        return None
    pairs = zip(cell.cost[FULL]["cpu_ms"], cell.cost[method]["cpu_ms"], strict=True)
    return float(median(full / own for full, own in pairs))


def _bound(cell: Cell, method: str) -> float | None:
    """A / (T + e·F) of the measured times: what a cascade without any cost of its own would reach."""
    full, table = _cpu_ms(cell, FULL), _cpu_ms(cell, TABLE)
    escalated = _cost(cell, method, "escalated")
    if full is None or table is None or escalated is None:
        return None
    return full / (table + escalated * full)


def _operations_ratio(cell: Cell, method: str) -> float | None:
    full, own = _operations(cell, FULL), _operations(cell, method)
    return None if full is None or own is None else full / own


def _latency_reduction(cell: Cell) -> float | None:
    full, own = _cost(cell, FULL, "lone_ms"), _cost(cell, DEFAULT, "lone_ms")
    return None if full is None or own is None else 1 - own / full


def _cut(cell: Cell, at: int, key: str) -> float | None:
    if cell.levels is None or not cell.levels["by_cutoff"]:
        return None
    value: float = cell.levels["by_cutoff"][at][key]
    return value


def _early(cell: Cell, at: int) -> float | None:
    return _cut(cell, at, "early")


def _cut_operations(cell: Cell, at: int) -> float | None:
    own, full = _cut(cell, at, "operations"), _operations(cell, FULL)
    return None if own is None or full is None else own / full


def _part(part: str, way: str) -> Value:
    def value(cell: Cell) -> float | None:
        return None if cell.levels is None else _percent(cell.levels["by_part"][part][way])

    return value


_TABLE_2: Final[Mapping[str, Value]] = {
    "full": lambda cell: _percent(_metric(cell, FULL)),
    "cascade": lambda cell: _percent(_metric(cell, DEFAULT)),
    "full, ms alone": lambda cell: _cost(cell, FULL, "lone_ms"),
    "cascade, ms alone": lambda cell: _cost(cell, DEFAULT, "lone_ms"),
    "latency reduction %": lambda cell: _percent(_latency_reduction(cell)),
    "full, CPU ms": lambda cell: _cpu_ms(cell, FULL),
    "cascade, CPU ms": lambda cell: _cpu_ms(cell, DEFAULT),
    "adapter / cascade": lambda cell: _speed_up(cell, DEFAULT),
    "bound": lambda cell: _bound(cell, DEFAULT),
    "full, texts/s": lambda cell: _cost(cell, FULL, "texts_per_s"),
    "cascade, texts/s": lambda cell: _cost(cell, DEFAULT, "texts_per_s"),
}
_TABLE_3: Final[Mapping[str, Value]] = {
    "escalated %": lambda cell: _percent(_escalated(cell, DEFAULT)),
    "early: table": _part("early", "table"),
    "early: full": _part("early", "full"),
    "escalated: table": _part("escalated", "table"),
    "escalated: full": _part("escalated", "full"),
    "α": lambda cell: _of_levels(cell, DEFAULT, "pruning"),
    "escalated: pruned": _part("escalated", "pruned"),
    "escalated: ensemble": _part("escalated", "ensemble"),
}
_CALIBRATION: Final[Mapping[str, Value]] = {
    "test rows": lambda cell: None if cell.levels is None else cell.levels["rows"],
    "table, before": lambda cell: _of_levels(cell, TABLE, "ece_before"),
    "table, after": lambda cell: _of_levels(cell, TABLE, "ece"),
    "full, before": lambda cell: _of_levels(cell, FULL, "ece_before"),
    "full, after": lambda cell: _of_levels(cell, FULL, "ece"),
    "served, before": lambda cell: _of_levels(cell, DEFAULT, "ece_before"),
    "served, after": lambda cell: _of_levels(cell, DEFAULT, "ece"),
}


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return fmean(known) if known else None


def _shown(value: float | None, scale: float = 1.0) -> float | str:
    return MISSING if value is None else scale * value


def _spread(values: Sequence[float]) -> str:
    """Mean and deviation; MISSING where there are none."""
    if not values:
        return MISSING
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")

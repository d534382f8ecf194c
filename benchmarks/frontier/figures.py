"""The table and the figures of the frontier, from what was measured."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Final

from benchmarks.accuracy.comparison import MISSING
from benchmarks.frontier.measurements import Cell, Found
from benchmarks.frontier.serving_cost import DEFAULT, FULL, TABLE, cascade_efficiency
from benchmarks.harness import Row

CALIBRATED_ROWS: Final = 1000
"""Test rows below which an ECE says little."""
PAIRS: Final = "_pairs"
"""Ends the names of figures of texts in pairs."""
Value = Callable[[Cell], float | None]


class Figures:
    """Reads the table and the figures from the cells. Means are of the datasets' own means over seeds."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._by_dataset: dict[str, list[Cell]] = {}
        for cell in found.cells:
            self._by_dataset.setdefault(cell.dataset.name, []).append(cell)

    def rows(self) -> list[Row]:
        """A row for each dataset: test metrics in points, and processor time of a text."""
        return [
            {"dataset": name, "seeds": sum(cell.model is not None for cell in cells)}
            | {title: _shown(_mean(map(value, cells))) for title, value in _COLUMNS.items()}
            for name, cells in self._by_dataset.items()
        ]

    def figures(self) -> dict[str, float]:
        """Those that other tools read; what was not measured is left out."""
        wanted = {
            name + ending: self._mean(value, pairs=pairs)
            for pairs, ending in ((False, ""), (True, PAIRS))
            for name, value in _FIGURES.items()
        }
        wanted |= {"path_flips": self._found.flips.get("any"), "mixer_cost": self._found.mixer_cost}
        measured = {name: value for name, value in wanted.items() if value is not None}
        missing = sum((one is None) for cell in self._found.cells for one in (cell.model, cell.dedicated))
        return measured | {"missing_cells": float(missing)}

    def _mean(self, value: Value, *, pairs: bool) -> float | None:
        chosen = [cells for cells in self._by_dataset.values() if cells[0].dataset.pairs == pairs]
        return _mean(_mean(map(value, cells)) for cells in chosen)


def _metric(cell: Cell, level: str) -> float | None:
    """In points."""
    return None if cell.model is None else 100 * float(cell.model["levels"][level])


def _dedicated(cell: Cell) -> float | None:
    return None if cell.dedicated is None else 100 * float(cell.dedicated["test"])


def _on_root(cell: Cell) -> float | None:
    return None if cell.on_root is None else 100 * float(cell.on_root["levels"]["cascade"])


def _default(cell: Cell) -> float | None:
    return _metric(cell, "cascade")


def _full(cell: Cell) -> float | None:
    return _metric(cell, "full")


def _table(cell: Cell) -> float | None:
    return _metric(cell, "table")


def _table_share(cell: Cell) -> float | None:
    return None if cell.model is None else 1 - float(cell.model["levels"]["escalated"])


def _ece(cell: Cell) -> float | None:
    if cell.model is None or cell.model["rows"] < CALIBRATED_ROWS:
        return None
    ece: float | None = cell.model["ece"]
    return ece


def _difference(high: Value, low: Value) -> Value:
    def value(cell: Cell) -> float | None:
        pair = high(cell), low(cell)
        return None if pair[0] is None or pair[1] is None else pair[0] - pair[1]

    return value


def _cpu_ms(way: str) -> Value:
    return lambda cell: None if cell.cost is None else float(median(cell.cost[way]["cpu_ms"]))


def _faster_than_full(way: str) -> Value:
    """The median of the repeats' own ratios of processor time."""

    def value(cell: Cell) -> float | None:
        if cell.cost is None:
            return None
        pairs = zip(cell.cost[FULL]["cpu_ms"], cell.cost[way]["cpu_ms"], strict=True)
        return float(median(full / own for full, own in pairs))

    return value


def _efficiency(cell: Cell) -> float | None:
    return None if cell.cost is None else cascade_efficiency(cell.cost)


def _percent(value: Value) -> Value:
    def percent(cell: Cell) -> float | None:
        found = value(cell)
        return None if found is None else 100 * found

    return percent


_FIGURES: Final[Mapping[str, Value]] = {
    "table_drop": _difference(_full, _table),
    "cascade_drop": _difference(_full, _default),
    "table_share": _table_share,
    "table_vs_full_ms": _faster_than_full(TABLE),
    "cascade_vs_full_ms": _faster_than_full(DEFAULT),
    "default_drop": _difference(_dedicated, _default),
    "cascade_efficiency": _efficiency,
    "ece_after": _ece,
    "domain_gain": _difference(_default, _on_root),
}
_COLUMNS: Final[Mapping[str, Value]] = {
    "every parameter": _dedicated,
    "full": _full,
    "table": _table,
    "default": _default,
    "default, no domain": _on_root,
    "from tables %": _percent(_table_share),
    "full, CPU ms": _cpu_ms(FULL),
    "table, CPU ms": _cpu_ms(TABLE),
    "default, CPU ms": _cpu_ms(DEFAULT),
    "ECE": _ece,
}


def _mean(values: Iterable[float | None]) -> float | None:
    known: Sequence[float] = [value for value in values if value is not None]
    return fmean(known) if known else None


def _shown(value: float | None) -> float | str:
    return MISSING if value is None else value

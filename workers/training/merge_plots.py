"""Merge the tables of a chain into one that gives the same answers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inference.hplm.compaction import merge
from inference.hplm.plot import PlotTable
from workers.training.atomic_folders import atomic_folders
from workers.training.disk import full_disk_told
from workers.training.progress import Reporter


def merge_plots(*, plots: Sequence[Path], out: Path, reporter: Reporter) -> dict[str, Any]:
    """Write one table of several, nearest first, to `out`; report {rows, bytes, levels, vectors, tables,
    before}: the rows and bytes of those it holds are `before`.
    """
    tables = [PlotTable.open(plot) for plot in plots]
    before = {"rows": sum(map(len, tables)), "bytes": sum(map(_size, plots))}
    reporter.stage("merge tables", before["rows"])

    def told(rows: int) -> None:
        reporter.check()
        reporter.advance(rows)

    with full_disk_told(), atomic_folders(out):
        about = merge(tables, out, told)
    reporter.advance(before["rows"])
    return {
        "rows": about["rows"],
        "bytes": _size(out),
        "levels": about["levels"],
        "vectors": about["dtype"],
        "tables": len(tables),
        "before": before,
    }


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())

"""Build a PLOT from a corpus, or merge several PLOTs (paper section 5.1)."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from inference.hplm.plot import PlotTable
from inference.hplm.plot_writer import merge_tables
from workers.training.corpus import require_texts
from workers.training.disk import Report, atomic_folders, disk_full_errors
from workers.training.plot_shards import PlotBuilder, PlotInputs, PlotSettings, ProgressCallback
from workers.training.progress import Reporter

__all__ = ["PlotSettings", "build_plot", "plot_report"]


def build_plot(
    *,
    root: Path,
    lower: Path,
    corpus: Path,
    out: Path,
    settings: PlotSettings,
    reporter: Reporter,
    all_unigrams: bool,
    alpha: float | None = None,
    budget_mb: float | None = None,
    above: Sequence[Path] = (),
    staging: Path | None = None,
) -> dict[str, Any]:
    """Write a table to `out` and report {rows, bytes, levels, coverage, vectors, fragments, tokens}.

    Its rows cover `alpha` % of the corpus, or are the best ones that `budget_mb` holds beside the tables
    `above`. Does all parts of the build in this process. `staging` keeps finished parts, so that a killed
    build resumes; by default they are in a temporary folder beside `out`. Raises HplmError:
    "corpus_too_small", "invalid_encoding", "out_of_disk", "out_of_memory".
    """
    require_texts(corpus)
    builder = PlotBuilder(
        PlotInputs(root, lower, corpus, all_unigrams, settings, alpha, budget_mb, tuple(above))
    )
    with _folder(staging, out) as folder:
        ranges = builder.count_pieces()
        reporter.start_stage("count fragments", ranges[-1][1])
        counted = [folder / f"count-{number}" for number in range(len(ranges))]
        for piece, part in zip(ranges, counted, strict=True):
            builder.count(piece, part, progress_callback(reporter, piece[0]))
            reporter.report(piece[1])
        reporter.start_stage("choose fragments", 1)
        chosen = builder.choose(counted, folder / "chosen", progress_callback(reporter))
        reporter.report(1)
        pieces = builder.vector_pieces(chosen["rows"])
        reporter.start_stage("compute fragments", chosen["rows"])
        computed = [folder / f"vectors-{number}" for number in range(len(pieces))]
        for piece, part in zip(pieces, computed, strict=True):
            builder.compute(piece, folder / "chosen", part, progress_callback(reporter, piece[0]))
        reporter.start_stage("write table", chosen["rows"])
        about = builder.write(folder / "chosen", pieces, computed, out, progress_callback(reporter))
    return plot_report(about, chosen, out)


def plot_report(about: dict[str, Any], chosen: Report, out: Path) -> dict[str, Any]:
    """The report of a build; `fragments`: the number of different ones in the corpus."""
    return _table_report(about, out) | {
        "coverage": chosen["coverage"],
        "fragments": chosen["different"],
        "tokens": chosen["tokens"],
    }


def progress_callback(reporter: Reporter, offset: int = 0) -> ProgressCallback:
    """A callback that reports its argument plus `offset`, and raises when the job is cancelled."""

    def on_progress(done: int) -> None:
        reporter.raise_if_cancelled()
        reporter.report(offset + done)

    return on_progress


@contextmanager
def _folder(staging: Path | None, out: Path) -> Iterator[Path]:
    if staging is not None:
        staging.mkdir(parents=True, exist_ok=True)
        yield staging
        return
    folder = out.parent / f".{out.name}-{uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def merge_plots(*, plots: Sequence[Path], out: Path, reporter: Reporter) -> dict[str, Any]:
    """Merge tables, nearest first, into one in `out`; report {rows, bytes, levels, vectors, tables, before}.

    before: the rows and bytes of the merged tables.
    """
    tables = [PlotTable.open(plot) for plot in plots]
    before = {"rows": sum(map(len, tables)), "bytes": sum(map(_size, plots))}
    reporter.start_stage("merge tables", before["rows"])

    with disk_full_errors(), atomic_folders(out):
        about = merge_tables(tables, out, progress_callback(reporter))
    reporter.report(before["rows"])
    return _table_report(about, out) | {"tables": len(tables), "before": before}


def _table_report(about: dict[str, Any], out: Path) -> dict[str, Any]:
    return {
        "rows": about["rows"],
        "bytes": _size(out),
        "levels": about["levels"],
        "vectors": about["dtype"],
    }


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())

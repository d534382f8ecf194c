"""Make a PLOT: what the local lower half says for the fragments of a corpus worth keeping (paper section
5.1).
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from workers.training.atomic_folders import Report
from workers.training.corpus import require_texts
from workers.training.plot_shards import PlotInputs, PlotParts, PlotSettings, Told
from workers.training.progress import Reporter

__all__ = ["PlotSettings", "build_plot", "plot_report"]


def build_plot(
    *,
    root: Path,
    lower: Path,
    corpus: Path,
    out: Path,
    alpha: float,
    settings: PlotSettings,
    reporter: Reporter,
    all_unigrams: bool,
    staging: Path | None = None,
) -> dict[str, Any]:
    """Write a table to `out` and report {rows, bytes, levels, coverage, alpha, vectors, fragments, tokens}.

    Does every part of the build here, one after the other. What a part leaves lies in `staging`, so that a
    build that was killed goes on where it was; without it, in a folder beside `out` that is gone afterwards.
    Raises HplmError("corpus_too_small"), ("invalid_encoding"), ("out_of_disk"), ("out_of_memory").
    """
    require_texts(corpus)
    parts = PlotParts(PlotInputs(root, lower, corpus, alpha, all_unigrams, settings))
    with _folder(staging, out) as folder:
        ranges = parts.count_pieces()
        reporter.stage("count fragments", ranges[-1][1])
        counted = [folder / f"count-{number}" for number in range(len(ranges))]
        for piece, place in zip(ranges, counted, strict=True):
            parts.count(piece, place, _telling(reporter, piece[0]))
            reporter.advance(piece[1])
        reporter.stage("choose fragments", 1)
        chosen = parts.choose(counted, folder / "chosen", _telling(reporter))
        reporter.advance(1)
        pieces = parts.vector_pieces(chosen["rows"])
        reporter.stage("compute fragments", chosen["rows"])
        computed = [folder / f"vectors-{number}" for number in range(len(pieces))]
        for piece, place in zip(pieces, computed, strict=True):
            parts.compute(piece, folder / "chosen", place, _telling(reporter, piece[0]))
        reporter.stage("write table", chosen["rows"])
        about = parts.write(folder / "chosen", pieces, computed, out, _telling(reporter))
    return plot_report(about, chosen, out, alpha)


def plot_report(about: dict[str, Any], chosen: Report, out: Path, alpha: float) -> dict[str, Any]:
    """What a build tells of the table it wrote; `fragments`: how many different ones the corpus has."""
    return {
        "rows": about["rows"],
        "bytes": sum(file.stat().st_size for file in out.iterdir()),
        "alpha": alpha,
        "levels": about["levels"],
        "vectors": about["dtype"],
        "coverage": chosen["coverage"],
        "fragments": chosen["different"],
        "tokens": chosen["tokens"],
    }


def _telling(reporter: Reporter, before: int = 0) -> Told:
    def told(done: int) -> None:
        reporter.check()
        reporter.advance(before + done)

    return told


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

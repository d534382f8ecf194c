"""Build a PLOT from a corpus, add what traffic missed, or merge the tables of a chain (paper section 5.1)."""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch

from inference.hplm import fragments
from inference.hplm.artifact_files import read_artifact_json
from inference.hplm.errors import HplmError
from inference.hplm.local_lower import LocalLower
from inference.hplm.plot import PlotTable
from inference.hplm.plot_writer import FragmentVectors, merge_tables, write_plot
from inference.hplm.root import ROOT_FILE
from inference.hplm.root_config import RootConfig
from workers.training.corpus import require_texts
from workers.training.disk import Report, atomic_folders, disk_full_errors
from workers.training.ngrams import Ids
from workers.training.plot_shards import PlotInputs, PlotParts, PlotSettings, Told
from workers.training.precision import Arithmetic, arithmetic
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


Missed = tuple[tuple[int, ...], int]
"""The ids of a fragment, and how often it was missed."""


def grow_plot(
    *,
    root: Path,
    lower: Path,
    plots: Sequence[Path],
    missed: Iterable[Missed],
    max_rows: int,
    out: Path,
    settings: PlotSettings,
    reporter: Reporter,
) -> dict[str, Any]:
    """Write the `max_rows` most missed fragments that `plots` lack to a table in `out`; report {rows, bytes,
    levels, vectors, misses}.

    misses: how many of those counted the table would have answered. What is no fragment of this root is left
    out: counts come from outside. Raises HplmError("too_few_rows") when nothing is left.
    """
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
    config = RootConfig.from_json(read_artifact_json(root / ROOT_FILE))
    wanted, answered = _lacking(_valid(missed, config), plots, max_rows)
    if not len(wanted):
        raise HplmError(
            "too_few_rows", "The tables hold all that was missed already; there is nothing to add."
        )
    local = LocalLower.load(lower, computing.device)
    reporter.stage("compute fragments", len(wanted))
    with atomic_folders(out):
        about = write_plot(
            out,
            _blocks(wanted, local, computing, settings.fragments_per_batch, reporter),
            {"missing_id": config.missing_id, "lower_digest": lower.name},
            local.composition,
            n=config.n,
            dtype=settings.vectors,
        )
    return {
        "rows": about["rows"],
        "bytes": sum(file.stat().st_size for file in out.iterdir()),
        "levels": about["levels"],
        "vectors": about["dtype"],
        "misses": answered,
    }


def _blocks(
    wanted: Ids, local: LocalLower, computing: Arithmetic, size: int, reporter: Reporter
) -> Iterator[FragmentVectors]:
    """Fragments [k, n] with their vectors [k, n, d], k at most `size` at a time."""
    for start in range(0, len(wanted), size):
        reporter.check()
        batch = wanted[start : start + size]
        with torch.no_grad(), computing.autocast():
            vectors = local(torch.from_numpy(batch).to(computing.device))
        yield batch, vectors.float().cpu().numpy().astype(np.float16)
        reporter.advance(start + len(batch))


def _valid(missed: Iterable[Missed], config: RootConfig) -> Counter[tuple[int, ...]]:
    counts: Counter[tuple[int, ...]] = Counter()
    for ids, count in missed:
        if len(ids) == config.n and all(0 <= id_ <= config.missing_id for id_ in ids):
            counts[ids] += count
    return counts


def _lacking(counts: Counter[tuple[int, ...]], plots: Sequence[Path], max_rows: int) -> tuple[Ids, int]:
    """The most missed fragments [F, n] that no table holds, in the order of their keys, and how often
    they were missed."""
    if not counts:
        return np.empty((0, fragments.DEFAULT_N), dtype=np.int64), 0
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    found = np.array([ids for ids, _ in ordered], dtype=np.int64)
    times = np.array([count for _, count in ordered], dtype=np.int64)
    keys = fragments.pack(found)
    held = np.zeros(len(keys), dtype=bool)
    for plot in plots:
        held |= PlotTable.open(plot).find(keys) >= 0
    kept = np.flatnonzero(~held)[:max_rows]
    kept = kept[np.argsort(keys[kept], kind="stable")]
    return found[kept], int(times[kept].sum())


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

    with disk_full_errors(), atomic_folders(out):
        about = merge_tables(tables, out, told)
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

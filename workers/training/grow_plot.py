"""Make a table of fragments that traffic missed, and that the tables of a chain lack."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from inference.hplm import fragments
from inference.hplm.errors import HplmError
from inference.hplm.json_files import read_artifact_json
from inference.hplm.local_lower import LocalLower
from inference.hplm.plot import PlotTable
from inference.hplm.plot_writer import Batch, write_plot
from inference.hplm.root import ROOT_FILE
from inference.hplm.root_config import RootConfig
from workers.training.atomic_folders import atomic_folders
from workers.training.ngrams import Ids
from workers.training.plot_shards import PlotSettings
from workers.training.precision import Arithmetic, arithmetic
from workers.training.progress import Reporter

Missed = tuple[tuple[int, ...], int]
"""The ids of a fragment, and how often it was missed."""


def grow_plot(
    *,
    root: Path,
    lower: Path,
    plots: Sequence[Path],
    missed: Iterable[Missed],
    most: int,
    out: Path,
    settings: PlotSettings,
    reporter: Reporter,
) -> dict[str, Any]:
    """Write the `most` missed fragments that `plots` lack to a table in `out`; report {rows, bytes, levels,
    vectors, misses}.

    misses: how many of those counted the table would have answered. What is no fragment of this root is left
    out: counts come from outside. Raises HplmError("too_few_rows") when nothing is left.
    """
    computing = arithmetic(device=settings.device, precision=settings.precision, seed=settings.seed)
    config = RootConfig.from_json(read_artifact_json(root / ROOT_FILE))
    wanted, answered = _lacking(_valid(missed, config), plots, most)
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
) -> Iterator[Batch]:
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


def _lacking(counts: Counter[tuple[int, ...]], plots: Sequence[Path], most: int) -> tuple[Ids, int]:
    """The most missed fragments [F, n] that no table holds, in the order of their keys, and how often
    they were missed."""
    if not counts:
        return np.empty((0, fragments.N), dtype=np.int64), 0
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    found = np.array([ids for ids, _ in ordered], dtype=np.int64)
    times = np.array([count for _, count in ordered], dtype=np.int64)
    keys = fragments.pack(found)
    held = np.zeros(len(keys), dtype=bool)
    for plot in plots:
        held |= PlotTable.open(plot).find(keys) >= 0
    kept = np.flatnonzero(~held)[:most]
    kept = kept[np.argsort(keys[kept], kind="stable")]
    return found[kept], int(times[kept].sum())

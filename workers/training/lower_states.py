"""States at the cut of a dataset's sequences, computed once and kept on disk."""

import errno
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import torch

from inference.hplm.lower_states import compute_lower_states, full_states
from inference.hplm.miss_policy import MissHandling, MissPolicy
from inference.hplm.plot_lookup import HitCounts, LowerLayers
from inference.text.token_levels import LEVEL_NAMES
from inference.text.tokenization import Encoding
from workers.training.disk import disk_full_errors
from workers.training.progress import Reporter

SEQUENCES_PER_BATCH = 64
LowerMode = Literal["fallback", "compute", "auto", "full"]
LOWER_MODES: Final[tuple[LowerMode, ...]] = ("fallback", "compute", "auto", "full")
"""How states are computed: by a `MissPolicy`, or ("full") by the original lower layers with full context."""


@dataclass(frozen=True)
class LowerStates:
    """States at the cut of many sequences, in a memory-mapped temporary file of float16.

    flat: [total tokens, d]. starts: [sequences + 1]. shares: of the fragments found at each level or
    computed, and of the sequences computed with full context.
    """

    flat: npt.NDArray[np.float16]
    starts: npt.NDArray[np.int64]
    shares: dict[str, float]

    def sequence(self, index: int) -> npt.NDArray[np.float16]:
        """The states [T, d] of one sequence."""
        return self.flat[self.starts[index] : self.starts[index + 1]]


def compute_states(
    sequences: Sequence[Encoding],
    lower_layers: LowerLayers,
    mode: LowerMode,
    tolerance: float | None,
    reporter: Reporter,
    folder: Path | None = None,
) -> LowerStates:
    """Compute the states of all sequences.

    tolerance: of the mode "auto" (None: its default). folder: on whose disk they lie (None: that of temporary
    files). Raises HplmError("out_of_disk") before it computes any.
    """
    starts = np.concatenate(([0], np.cumsum([len(one) for one in sequences]))).astype(np.int64)
    flat = _allocate(int(starts[-1]), lower_layers.chain.tables[0].hidden, folder)
    counts: list[HitCounts] = []
    reporter.start_stage("look up", len(sequences))
    # Similar lengths together, because full texts are padded.
    order = np.argsort([len(one) for one in sequences], kind="stable")
    for first in range(0, len(order), SEQUENCES_PER_BATCH):
        reporter.raise_if_cancelled()
        batch = order[first : first + SEQUENCES_PER_BATCH]
        states, found = _compute([sequences[index] for index in batch], lower_layers, mode, tolerance)
        for index, rows in zip(batch, states, strict=True):
            flat[starts[index] : starts[index + 1]] = rows.astype(np.float16)
        counts += found
        reporter.report(first + len(batch))
    return LowerStates(flat, starts, _shares(counts))


def _allocate(rows: int, hidden: int, folder: Path | None) -> npt.NDArray[np.float16]:
    """A mapped file [rows, hidden] whose disk space is allocated in advance.

    On a full disk, writing to an unallocated page would kill the process.
    """
    size = rows * hidden * np.dtype(np.float16).itemsize
    # An unlinked file disappears with the process, even a killed one.
    with disk_full_errors(), tempfile.TemporaryFile(dir=folder) as file:
        disk = os.fstatvfs(file.fileno())
        # posix_fallocate would fill the disk before it fails.
        if size > disk.f_bavail * disk.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, dtype=np.float16, mode="r+", shape=(rows, hidden))


@torch.no_grad()
def _compute(
    sequences: list[Encoding], lower_layers: LowerLayers, mode: LowerMode, tolerance: float | None
) -> tuple[list[npt.NDArray[Any]], list[HitCounts]]:
    """The states [T, d] of each sequence."""
    ids, types = [one.ids for one in sequences], [one.types for one in sequences]
    if mode == "full":
        assert lower_layers.full is not None
        states = full_states(lower_layers.full, ids, types)
        counts = [HitCounts(full_context=True)] * len(ids)
    else:
        policy = MissPolicy(mode)
        misses = MissHandling(policy) if tolerance is None else MissHandling(policy, tolerance)
        filled = compute_lower_states(ids, [lower_layers] * len(ids), [misses] * len(ids), types)
        states, counts = filled.states, filled.counts
    rows = torch.split(states.float().cpu(), [len(one) for one in ids])
    return [row.numpy() for row in rows], counts


def _shares(counts: Sequence[HitCounts]) -> dict[str, float]:
    totals = np.array([[one.exact, one.shorter, one.unigram, one.computed] for one in counts]).sum(axis=0)
    shares = (totals / max(1, totals.sum())).round(4).tolist()
    whole = sum(one.full_context for one in counts) / max(1, len(counts))
    return {**dict(zip(LEVEL_NAMES, shares, strict=True)), "whole": round(whole, 4)}

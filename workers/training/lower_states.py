"""Labelled texts as the upper layers will see them: their lower half made once and kept."""

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
from inference.hplm.tokenization import Encoding
from workers.training.disk import disk_full_errors
from workers.training.progress import Reporter

TEXTS_PER_CHUNK = 64
HIT_NAMES = ("trigram", "bigram", "unigram", "computed")
LowerWay = Literal["fallback", "compute", "auto", "whole"]
WAYS: Final[tuple[LowerWay, ...]] = ("fallback", "compute", "auto", "whole")
"""How the lower half of a text is made: looked up, with missing fragments computed, as the policy `auto` has
it, or by the original lower layers with full context."""


@dataclass(frozen=True)
class LowerStates:
    """States at the cut of many sequences, in one nameless file of float16 mapped into memory.

    flat: [total tokens, d]; starts: [sequences + 1]; shares: of the fragments that each level answered or
    that were computed, and of the sequences computed whole.
    """

    flat: npt.NDArray[np.float16]
    starts: npt.NDArray[np.int64]
    shares: dict[str, float]

    def of(self, number: int) -> npt.NDArray[np.float16]:
        """The states [T, d] of one sequence."""
        return self.flat[self.starts[number] : self.starts[number + 1]]


def lower_states(
    sequences: Sequence[Encoding],
    half: LowerLayers,
    way: LowerWay,
    tolerance: float | None,
    reporter: Reporter,
    folder: Path | None = None,
) -> LowerStates:
    """Make the states of all sequences. tolerance: of the policy `auto` (None: the usual one); folder: on
    whose disk they lie (None: that of temporary files). HplmError("out_of_disk") before any is made.
    """
    starts = np.concatenate(([0], np.cumsum([len(one) for one in sequences]))).astype(np.int64)
    flat = _room(int(starts[-1]), half.chain.tables[0].hidden, folder)
    counts: list[HitCounts] = []
    reporter.stage("look up", len(sequences))
    # Like lengths together: the whole texts among them are padded.
    order = np.argsort([len(one) for one in sequences], kind="stable")
    for first in range(0, len(order), TEXTS_PER_CHUNK):
        reporter.check()
        some = order[first : first + TEXTS_PER_CHUNK]
        states, found = _made([sequences[at] for at in some], half, way, tolerance)
        for number, rows in zip(some, states, strict=True):
            flat[starts[number] : starts[number + 1]] = rows.astype(np.float16)
        counts += found
        reporter.advance(first + len(some))
    return LowerStates(flat, starts, _shares(counts))


def _room(rows: int, hidden: int, folder: Path | None) -> npt.NDArray[np.float16]:
    """[rows, hidden] in a file whose every byte the disk has granted: on one that is full, the first touch
    of a page that has no place would end the process.
    """
    size = rows * hidden * np.dtype(np.float16).itemsize
    # A file without a name is gone with its last user, killed or not.
    with disk_full_errors(), tempfile.TemporaryFile(dir=folder) as file:
        disk = os.fstatvfs(file.fileno())
        # Not left to the call below alone: it takes all there is before it says that this does not suffice.
        if size > disk.f_bavail * disk.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, dtype=np.float16, mode="r+", shape=(rows, hidden))


@torch.no_grad()
def _made(
    sequences: list[Encoding], half: LowerLayers, way: LowerWay, tolerance: float | None
) -> tuple[list[npt.NDArray[Any]], list[HitCounts]]:
    """The states [T, d] of each sequence."""
    ids, types = [one.ids for one in sequences], [one.types for one in sequences]
    if way == "whole":
        assert half.full is not None
        states = full_states(half.full, ids, types)
        counts = [HitCounts(whole=True)] * len(ids)
    else:
        misses = (
            MissHandling(MissPolicy(way)) if tolerance is None else MissHandling(MissPolicy(way), tolerance)
        )
        filled = compute_lower_states(ids, [half] * len(ids), [misses] * len(ids), types)
        states, counts = filled.states, filled.counts
    rows = states.float().cpu().split([len(one) for one in ids])
    return [row.numpy() for row in rows], counts


def _shares(counts: Sequence[HitCounts]) -> dict[str, float]:
    totals = np.array([[one.full, one.part, one.single, one.computed] for one in counts]).sum(axis=0)
    shares = (totals / max(1, totals.sum())).round(4).tolist()
    whole = sum(one.whole for one in counts) / max(1, len(counts))
    return {**dict(zip(HIT_NAMES, shares, strict=True)), "whole": round(whole, 4)}

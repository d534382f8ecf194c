"""States at the cut of a dataset's sequences, computed once and kept on disk."""

import errno
import math
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import torch

from inference.cascade.dispatcher import Coverage, Level
from inference.hplm.lower_states import compute_lower_states
from inference.hplm.plot_lookup import LowerLayers
from inference.text.token_levels import LEVEL_NAMES
from inference.text.tokenization import Encoding
from workers.training.disk import disk_full_errors
from workers.training.progress import Reporter

SEQUENCES_PER_BATCH = 64
LowerMode = Literal["table", "full"]
LOWER_MODES: Final[tuple[LowerMode, ...]] = ("table", "full")
"""The `Level` at which texts are read: looked up in the tables, or computed by the branch's lower layers with
full context."""
TABLE_MODE: Final[tuple[LowerMode, ...]] = ("table",)
STAGES: Final[dict[LowerMode, str]] = {"table": "look up", "full": "compute in full"}


@dataclass(frozen=True)
class LowerStates:
    """States at the cut of many sequences, in a memory-mapped temporary file of float16.

    flat: [total tokens, d]. starts, ends: where each sequence begins and ends there. coverage: of each
    sequence; nothing at the level FULL.
    """

    flat: npt.NDArray[np.float16]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    coverage: tuple[Coverage, ...]

    @property
    def shares(self) -> dict[str, float]:
        """The shares of the tokens that a table held by their whole fragment, by a part of it, by their
        uni-gram, and of those that were computed."""
        found = np.array([(one.whole, one.part, one.unigram) for one in self.coverage]).sum(axis=0)
        tokens = int((self.ends - self.starts).sum())
        counts = [*found.tolist(), tokens - int(found.sum())]
        total = max(1, tokens)
        return {name: round(count / total, 4) for name, count in zip(LEVEL_NAMES, counts, strict=True)}

    def sequence(self, index: int) -> npt.NDArray[np.float16]:
        """The states [T, d] of one sequence."""
        return self.flat[self.starts[index] : self.ends[index]]

    def subset(self, indices: Sequence[int]) -> "LowerStates":
        """Those of some sequences, in the same file."""
        chosen = list(indices)
        coverage = tuple(self.coverage[index] for index in chosen)
        return LowerStates(self.flat, self.starts[chosen], self.ends[chosen], coverage)


def compute_states(
    sequences: Sequence[Encoding],
    lower_layers: LowerLayers,
    mode: LowerMode,
    reporter: Reporter,
    folder: Path | None = None,
) -> LowerStates:
    """Compute the states of all sequences.

    folder: on whose disk they lie (None: that of temporary files). Raises HplmError("out_of_disk") before it
    computes any.
    """
    starts = np.concatenate(([0], np.cumsum([len(one) for one in sequences]))).astype(np.int64)
    flat = map_temporary_file((int(starts[-1]), lower_layers.tables.tables[0].hidden), np.float16, folder)
    coverage = [Coverage()] * len(sequences)
    reporter.start_stage(STAGES[mode], len(sequences))
    # Similar lengths together: attention over full texts groups rows of equal length.
    order = np.argsort([len(one) for one in sequences], kind="stable")
    for first in range(0, len(order), SEQUENCES_PER_BATCH):
        reporter.raise_if_cancelled()
        batch = order[first : first + SEQUENCES_PER_BATCH]
        states, found = _compute([sequences[index] for index in batch], lower_layers, mode)
        for index, rows, covered in zip(batch, states, found, strict=True):
            flat[starts[index] : starts[index + 1]] = rows.astype(np.float16)
            coverage[index] = covered
        reporter.report(first + len(batch))
    return LowerStates(flat, starts[:-1], starts[1:], tuple(coverage))


def map_temporary_file(
    shape: tuple[int, int], dtype: type[np.generic], folder: Path | None = None
) -> npt.NDArray[Any]:
    """A mapped file of that shape whose disk space is allocated in advance, on the disk of `folder` (None:
    that of temporary files). Raises HplmError("out_of_disk").

    On a full disk, writing to an unallocated page would kill the process.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    # An unlinked file disappears with the process, even a killed one.
    with disk_full_errors(), tempfile.TemporaryFile(dir=folder) as file:
        disk = os.fstatvfs(file.fileno())
        # posix_fallocate would fill the disk before it fails.
        if size > disk.f_bavail * disk.f_frsize:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)


def _compute(
    sequences: list[Encoding], lower_layers: LowerLayers, mode: LowerMode
) -> tuple[list[npt.NDArray[Any]], list[Coverage]]:
    """The states [T, d] and the coverage of each sequence."""
    ids, types = [one.ids for one in sequences], [one.types for one in sequences]
    levels = [Level[mode.upper()]] * len(ids)
    found = compute_lower_states(ids, [lower_layers] * len(ids), levels, types)
    rows = torch.split(found.states.float().cpu(), [len(one) for one in ids])
    return [row.numpy() for row in rows], found.coverage

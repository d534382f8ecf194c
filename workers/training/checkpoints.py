"""Checkpoints of a training job on disk, so that a killed job resumes with the same result.

A checkpoint is one safetensors file per stage, with its step and a JSON state in the header. It is written to
a temporary name, synced and renamed, so a complete one always exists. It holds no random state: every random
number comes from `seeded_rng(seed, stage, step)`, so a repeated step draws the same numbers.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from workers.training.disk import disk_full_errors, sync

FORMAT: Final = "1"
SAVE_INTERVAL_S: Final = 60.0


@dataclass(frozen=True)
class Checkpoint:
    """The state after `step` steps. tensors: on the CPU; state: what JSON can hold."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


class CheckpointStore:
    """The latest checkpoint of every stage of one job, in a folder of that job.

    folder: created when first needed; None disables checkpoints. interval_s: seconds between two of them.
    writes: False makes `save` do nothing.
    """

    def __init__(
        self,
        folder: Path | None = None,
        interval_s: float = SAVE_INTERVAL_S,
        *,
        clock: Callable[[], float] = time.monotonic,
        writes: bool = True,
    ) -> None:
        self._folder, self._interval_s, self._clock, self._writes = folder, interval_s, clock, writes
        self._last = clock()

    def is_due(self) -> bool:
        """Whether it is time for another checkpoint."""
        return self._folder is not None and self._writes and self._clock() - self._last >= self._interval_s

    def save(self, stage: str, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Replace the stage's checkpoint.

        Raises HplmError("out_of_disk") when the disk is full; the previous checkpoint then remains.
        """
        if self._folder is None or not self._writes:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        metadata = {"format": FORMAT, "step": str(step), "state": json.dumps(dict(state))}
        path = self._path(stage)
        temporary = path.with_suffix(".partial")
        with disk_full_errors():
            save_file({name: _cpu_copy(value) for name, value in tensors.items()}, temporary, metadata)
            sync(temporary)
            temporary.replace(path)
            sync(self._folder)
        self._last = self._clock()

    def load(self, stage: str) -> Checkpoint | None:
        """The stage's latest checkpoint; None when there is none, or none that can be read."""
        if self._folder is None or not (path := self._path(stage)).is_file():
            return None
        try:
            with safe_open(path, "pt") as file:
                metadata = file.metadata() or {}
                if metadata.get("format") != FORMAT:
                    return None
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            return Checkpoint(int(metadata["step"]), tensors, json.loads(metadata["state"]))
        except (SafetensorError, OSError, ValueError, KeyError):
            # A damaged checkpoint only costs the time to repeat its steps.
            return None

    def read_only(self) -> "CheckpointStore":
        """The same checkpoints for a peer process of the job, which never writes them."""
        return CheckpointStore(self._folder, self._interval_s, writes=False)

    def _path(self, stage: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{stage.replace(' ', '_')}.safetensors"


def seeded_rng(seed: int, *key: int) -> np.random.Generator:
    """A random generator for one point of a job, such as (stage, step): the same at every visit."""
    return np.random.default_rng([seed, *key])


def seeded_generator(seed: int, *key: int) -> torch.Generator:
    """As `seeded_rng`, for torch; on the CPU, so that every device draws the same numbers."""
    return torch.Generator().manual_seed(int(seeded_rng(seed, *key).integers(1 << 62)))


def _cpu_copy(value: Tensor) -> Tensor:
    return value.detach().to("cpu").contiguous().clone()

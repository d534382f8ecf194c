"""What a training function keeps on disk so that it can go on after it was killed, as if it never had been.

A checkpoint is one safetensors file per stage, with its step and a JSON state in the header; it is written
aside, synced and renamed, so there is always the last whole one. No random state is in it: whatever a step
draws comes from `draws(seed, stage, step)`, so a step taken again draws the same.
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
EVERY_S: Final = 60.0


@dataclass(frozen=True)
class Saved:
    """`step` steps of a stage were done. tensors: on the CPU; state: what JSON can hold."""

    step: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]


class Checkpoints:
    """The last state of every stage of one job, in a folder of that job's own.

    folder: made when first needed; None keeps nothing, for callers that cannot be resumed. every_s: how many
    seconds `due` lets pass between two checkpoints. writes: whether `save` and `forget` do anything.
    """

    def __init__(
        self,
        folder: Path | None = None,
        every_s: float = EVERY_S,
        *,
        clock: Callable[[], float] = time.monotonic,
        writes: bool = True,
    ) -> None:
        self._folder, self._every_s, self._clock, self._writes = folder, every_s, clock, writes
        self._last = clock()

    def due(self) -> bool:
        """Whether it is time for another checkpoint."""
        return self._folder is not None and self._writes and self._clock() - self._last >= self._every_s

    def save(self, stage: str, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Replace the stage's checkpoint. Raises HplmError("out_of_disk") when the disk is full; the one
        before is then still there.
        """
        if self._folder is None or not self._writes:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        about = {"format": FORMAT, "step": str(step), "state": json.dumps(dict(state))}
        path = self._path(stage)
        aside = path.with_suffix(".partial")
        with disk_full_errors():
            save_file({name: _plain(value) for name, value in tensors.items()}, aside, about)
            sync(aside)
            aside.replace(path)
            sync(self._folder)
        self._last = self._clock()

    def load(self, stage: str) -> Saved | None:
        """The stage's last checkpoint; None when there is none, or none that can be read."""
        if self._folder is None or not (path := self._path(stage)).is_file():
            return None
        try:
            with safe_open(path, "pt") as file:
                about = file.metadata() or {}
                if about.get("format") != FORMAT:
                    return None
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            return Saved(int(about["step"]), tensors, json.loads(about["state"]))
        except (SafetensorError, OSError, ValueError, KeyError):
            # A damaged checkpoint costs the time to do its steps again, and nothing else.
            return None

    def forget(self, stage: str) -> None:
        """Remove the checkpoint of a stage that a later stage's checkpoint makes needless."""
        if self._folder is not None and self._writes:
            self._path(stage).unlink(missing_ok=True)

    def reading_only(self) -> "Checkpoints":
        """The same checkpoints for another process that does the same job."""
        return Checkpoints(self._folder, self._every_s, writes=False)

    def _path(self, stage: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{stage.replace(' ', '_')}.safetensors"


def draws(seed: int, *where: int) -> np.random.Generator:
    """Random numbers of one place in a job, say (stage, step): the same whenever that place is reached."""
    return np.random.default_rng([seed, *where])


def torch_draws(seed: int, *where: int) -> torch.Generator:
    """As `draws`, for torch (on the CPU, so that every device draws the same)."""
    return torch.Generator().manual_seed(int(draws(seed, *where).integers(1 << 62)))


def _plain(value: Tensor) -> Tensor:
    return value.detach().to("cpu").contiguous().clone()

"""The outputs of a model for one text, and what they mean."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from inference.cascade.dispatcher import Level
from inference.errors import HplmError, reason
from inference.text.tasks import DEFAULT_THRESHOLD, ENCODER_TASKS, Task

HPLM_FILE: Final = "hplm.json"


@dataclass(frozen=True, slots=True)
class OutputNames:
    """What the outputs of a model mean: its task, and the label of each. threshold: the probability from
    which a label of a multi-label model is predicted. table_only: whether the model answers at the level
    TABLE alone, as its head was fitted on looked-up states."""

    task: Task
    labels: tuple[str, ...]
    threshold: float = DEFAULT_THRESHOLD
    table_only: bool = False

    @classmethod
    def load(cls, folder: Path) -> "OutputNames":
        """From the hplm.json of a version's artifact. Raises HplmError(corrupt_artifact)."""
        try:
            metadata = json.loads((folder / HPLM_FILE).read_bytes())
            task, labels, threshold = metadata["task"], metadata["labels"], metadata["threshold"]
            if task not in ENCODER_TASKS:
                raise ValueError(f"unknown task {task!r}")
            table_only = metadata.get("table_only") is True
            return cls(task, tuple(map(str, labels)), float(threshold), table_only)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise HplmError("corrupt_artifact", f"{HPLM_FILE} cannot be read: {reason(error)}") from error


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """What came of one encoding of T tokens. values fp32: the flat outputs of the head, or the embedding
    [w]. token_levels [T] uint8: how each token was made, where that was asked for. level: at
    which they were computed; from_tables: those of the level TABLE, where the text went on from there."""

    values: NDArray[np.float32]
    token_levels: NDArray[np.uint8] | None = None
    level: Level = Level.TABLE
    from_tables: NDArray[np.float32] | None = None

"""How many parts a batch is split into from the start, before any allocation has failed."""

import os
from typing import Final

_VARIABLE: Final = "GRADIENT_ACCUMULATION_STEPS"
"""An environment variable, because all processes of a job on several GPUs must agree."""


def set_accumulation_steps(steps: int) -> None:
    """Make this process and its children split every batch into this many parts."""
    os.environ[_VARIABLE] = str(steps)


def initial_accumulation_steps() -> int:
    """The number of parts per batch to start with; 1 by default."""
    return int(os.environ.get(_VARIABLE, "1"))

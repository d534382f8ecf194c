"""How much memory a job may hope for: whether its batches are taken in parts from the beginning."""

import os
from typing import Final

_PARTS: Final = "TRAIN_BATCH_PARTS"
"""Handed on in the environment, because the processes of one job on several accelerators must agree."""


def begin_in_parts(parts: int) -> None:
    """Have this process, and those it starts, begin with batches in so many parts."""
    os.environ[_PARTS] = str(parts)


def first_parts() -> int:
    """In how many parts to take a batch before any memory has run out; 1 unless told otherwise."""
    return int(os.environ.get(_PARTS, "1"))

"""Runs a step again where the device had no memory left."""

import logging
import traceback
from collections.abc import Callable

import torch

from inference.generation.step import Outcome, Runner, Step

log = logging.getLogger(__name__)


class FreeingRunner:
    """A `Runner` that frees memory and tries once more where a step finds none on the device."""

    def __init__(self, runner: Runner, free_memory: Callable[[], None]) -> None:
        """free_memory: gives back what can be loaded again."""
        self._runner = runner
        self._free_memory = free_memory

    def run(self, step: Step) -> list[Outcome]:
        """See `Runner`. Raises what the second attempt raises."""
        try:
            return self._runner.run(step)
        except torch.OutOfMemoryError as error:
            log.warning("a step of %d tokens found no memory, it is tried again: %s", step.tokens, error)
            traceback.clear_frames(error.__traceback__)  # they hold what the step had computed
        self._free_memory()
        return self._runner.run(step)

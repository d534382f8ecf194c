"""Runs a step again where the device had no memory left."""

from collections.abc import Callable

from inference.engine.out_of_memory import retry_with_freed_memory
from inference.generation.step import Outcome, Runner, Step


class FreeingRunner:
    """A `Runner` that frees memory and tries once more where a step finds none on the device."""

    def __init__(self, runner: Runner, free_memory: Callable[[], None]) -> None:
        """free_memory: gives back what can be loaded again."""
        self._runner = runner
        self._free_memory = free_memory

    def run(self, step: Step) -> list[Outcome]:
        """See `Runner`. Raises what the second attempt raises."""
        return retry_with_freed_memory(lambda: self._runner.run(step), self._free_memory)

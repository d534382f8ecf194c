"""What a training loop tells the outside, and how the outside stops it."""

from typing import Protocol


class Cancelled(Exception):
    """Raised by `Reporter.check` when somebody asked for the job to stop."""


class Reporter(Protocol):
    """Every loop calls `check` once a step, so a cancel is obeyed within one step."""

    def stage(self, name: str, total: int) -> None:
        """Begin a stage of `total` steps."""

    def advance(self, step: int, **metrics: float) -> None:
        """`step` steps of the current stage are done; `metrics` are its latest figures."""

    def check(self) -> None:
        """Raise `Cancelled` if the job must stop."""

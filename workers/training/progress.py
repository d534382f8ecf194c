"""The interface through which training loops report progress and are cancelled."""

from typing import Protocol


class Cancelled(Exception):
    """Raised by `Reporter.raise_if_cancelled` when the job was cancelled."""


class Reporter(Protocol):
    """Receives the progress of a training loop, which calls `raise_if_cancelled` once a step."""

    def start_stage(self, name: str, total: int) -> None:
        """Start a stage of `total` steps."""

    def report(self, step: int, **metrics: float) -> None:
        """Report that `step` steps of the current stage are done, with its latest metrics."""

    def raise_if_cancelled(self) -> None:
        """Raise an exception, such as `Cancelled`, if the job must stop."""

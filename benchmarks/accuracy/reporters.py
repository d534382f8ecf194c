"""What the training functions report to in a benchmark."""

import time

from rich.console import Console

REPORT_INTERVAL_S = 30.0


class ConsoleReporter:
    """A `Reporter` that prints a line every half minute."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stage, self._total, self._reported_at = "", 1, 0.0

    def start_stage(self, name: str, total: int) -> None:
        """Start a stage of `total` steps."""
        self._stage, self._total, self._reported_at = name, max(total, 1), time.monotonic()

    def report(self, step: int, **metrics: float) -> None:
        """Report that `step` steps of the stage are done."""
        if time.monotonic() - self._reported_at < REPORT_INTERVAL_S:
            return
        self._reported_at = time.monotonic()
        figures = " ".join(
            f"{name}={value:.4g}" for name, value in metrics.items() if isinstance(value, float)
        )
        self._console.print(
            f"[dim]  {self._stage}: {100 * step / self._total:.0f}% {figures}[/]", highlight=False
        )

    def raise_if_cancelled(self) -> None:
        """Do nothing: benchmarks are cancelled by Ctrl-C."""

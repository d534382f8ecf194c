"""What the training functions report to in a benchmark."""

import time

from rich.console import Console

from workers.training.progress import Reporter

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


class StageClock:
    """A reporter that also measures the processor seconds of each stage."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._starts: list[tuple[str, float]] = []

    def start_stage(self, name: str, total: int) -> None:
        """End the stage before, and start this one."""
        self._starts.append((name, time.process_time()))
        self._reporter.start_stage(name, total)

    def report(self, step: int, **metrics: float) -> None:
        """Pass it on."""
        self._reporter.report(step, **metrics)

    def raise_if_cancelled(self) -> None:
        """Pass it on."""
        self._reporter.raise_if_cancelled()

    def seconds(self) -> dict[str, float]:
        """By stage; the last one ends now."""
        ends = [start for _, start in self._starts[1:]] + [time.process_time()]
        return {name: round(end - start, 1) for (name, start), end in zip(self._starts, ends, strict=True)}

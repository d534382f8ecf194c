"""Progress bars on stderr, if it is a terminal."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Self

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from hmi_client.cli.output import print_note, stderr
from hmi_client.responses import Batch, Job


class ProgressBars:
    """A context manager that draws progress bars. ``transient`` bars disappear at its end."""

    def __init__(self, *columns: ProgressColumn, transient: bool, shown: bool = True) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *columns,
            console=stderr,
            transient=transient,
            disable=not (shown and stderr.is_terminal),
            # On a terminal, results are printed above the bars. A pipe gets them unchanged.
            redirect_stdout=sys.stdout.isatty(),
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


class FileBars(ProgressBars):
    """One bar per uploaded file."""

    def __init__(self) -> None:
        super().__init__(DownloadColumn(), TransferSpeedColumn(), transient=True)
        self._bars: dict[Path, TaskID] = {}

    def update(self, path: Path, uploaded: int, size: int) -> None:
        """Draw the progress of an upload."""
        bar = self._bars.get(path)
        if bar is None:
            bar = self._bars[path] = self._progress.add_task(path.name, total=size)
        self._progress.update(bar, completed=uploaded)


class JobBars(ProgressBars):
    """One bar per job, with its stage."""

    def __init__(self, *, transient: bool = False, shown: bool = True) -> None:
        columns = (TaskProgressColumn(), TextColumn("{task.fields[stage]}"), TimeElapsedColumn())
        super().__init__(*columns, transient=transient, shown=shown)
        self._bars: dict[str, TaskID] = {}

    def update(self, job: Job) -> None:
        """Draw the state of a job."""
        bar = self._bars.get(job.id)
        if bar is None:
            bar = self._bars[job.id] = self._progress.add_task(job.kind, total=1.0, stage="", start=False)
        if job.state == "running":
            self._progress.start_task(bar)
        completed = 1.0 if job.state == "succeeded" else job.progress or 0.0
        state = [] if job.state == "running" and job.stage else [job.state]
        self._progress.update(bar, completed=completed, stage=", ".join(state + _details(job)))
        if job.is_finished:
            self._progress.stop_task(bar)


class JobLines:
    """A line to stderr whenever the state, the step or the queue position of a job changes, or its progress
    by a tenth: for logs and pipes."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[object, ...]] = {}

    def update(self, job: Job) -> None:
        """Print the state of a job, unless it is as before."""
        progress = job.progress or 0.0
        shown = (job.state, job.stage, job.queue_position, int(10 * progress))
        if self._last.get(job.id) == shown:
            return
        self._last[job.id] = shown
        percent = [f"{progress:.0%}"] if job.state == "running" else []
        print_note(f"{job.kind}: {', '.join([job.state, *percent, *_details(job)])}")


def _details(job: Job) -> list[str]:
    """The queue position of a queued job; the step and the time left of a running one."""
    if job.state == "queued" and job.queue_position:
        return [f"place {job.queue_position:,}"]
    if job.state != "running":
        return []
    stage = [job.stage] if job.stage else []
    left = [] if job.eta_seconds is None else [f"{timedelta(seconds=round(job.eta_seconds))} left"]
    return stage + left


class BatchBar(ProgressBars):
    """A bar of a batch's lines."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(TaskProgressColumn(), MofNCompleteColumn(), TimeRemainingColumn(), transient=True)
        self._bar = self._progress.add_task(batch.filename, total=None)

    def update(self, batch: Batch) -> None:
        """Draw the state of a batch."""
        self._progress.update(self._bar, completed=batch.lines, total=batch.total_lines)

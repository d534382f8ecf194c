"""Progress bars, on stderr; none where that is no terminal."""

import sys
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

from hmi_client.cli.output import notes
from hmi_client.responses import Batch, Job


class ProgressBars:
    """Drawn while the block lasts. transient: they are gone then."""

    def __init__(self, *columns: ProgressColumn, transient: bool, shown: bool = True) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *columns,
            console=notes,
            transient=transient,
            disable=not (shown and notes.is_terminal),
            # Results that a terminal shows go above the bars; those that a program reads are left alone.
            redirect_stdout=sys.stdout.isatty(),
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


class FileBars(ProgressBars):
    """One for each file that is sent."""

    def __init__(self) -> None:
        super().__init__(DownloadColumn(), TransferSpeedColumn(), transient=True)
        self._bars: dict[Path, TaskID] = {}

    def told(self, path: Path, arrived: int, size: int) -> None:
        """So much of a file is there."""
        bar = self._bars.get(path)
        if bar is None:
            bar = self._bars[path] = self._progress.add_task(path.name, total=size)
        self._progress.update(bar, completed=arrived)


class JobBars(ProgressBars):
    """One for each job, with what it is at."""

    def __init__(self, *, transient: bool = False, shown: bool = True) -> None:
        columns = (TaskProgressColumn(), TextColumn("{task.fields[now]}"), TimeElapsedColumn())
        super().__init__(*columns, transient=transient, shown=shown)
        self._bars: dict[str, TaskID] = {}

    def told(self, job: Job) -> None:
        """This is how the job stands."""
        bar = self._bars.get(job.id)
        if bar is None:
            bar = self._bars[job.id] = self._progress.add_task(job.kind, total=1.0, now="", start=False)
        if job.state == "running":
            self._progress.start_task(bar)
        share = 1.0 if job.state == "succeeded" else job.progress or 0.0
        now = job.state if job.has_ended else job.stage or job.state
        self._progress.update(bar, completed=share, now=now)
        if job.has_ended:
            self._progress.stop_task(bar)


class BatchBar(ProgressBars):
    """Of its lines."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(TaskProgressColumn(), MofNCompleteColumn(), TimeRemainingColumn(), transient=True)
        self._bar = self._progress.add_task(batch.filename, total=None)

    def told(self, batch: Batch) -> None:
        """This is how the batch stands."""
        self._progress.update(self._bar, completed=batch.lines, total=batch.total_lines)

"""Watch jobs until they end, with a progress bar for each."""

import time
from collections.abc import Iterable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from versiontree.jobs.models import TERMINAL, Job
from versiontree.tree.models import Version

POLL_SECONDS = 0.5


class DemoError(Exception):
    """A step of the demo did not end well; the message says which and why."""


def wait_until_ready(versions: Iterable[Version], console: Console) -> None:
    """Show the jobs of ``versions`` until all have ended.

    Raises:
        DemoError: one of them failed or was cancelled.
    """
    version_ids = [version.pk for version in versions]
    columns = (
        TextColumn("{task.description:<42}"),
        BarColumn(bar_width=16),
        TextColumn("{task.percentage:>4.0f}%  {task.fields[stage]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bars: dict[str, TaskID] = {}
        while True:
            jobs = list(Job.unscoped.filter(version__in=version_ids).order_by("created_at", "pk"))
            for job in jobs:
                _draw(progress, bars, job)
            if all(job.state in TERMINAL for job in jobs):
                break
            time.sleep(POLL_SECONDS)
    for job in jobs:
        if job.state != Job.State.SUCCEEDED:
            raise DemoError(f"{job.get_kind_display()} of {job.version}: {job.state}. {job.error_message}")


def _draw(progress: Progress, bars: dict[str, TaskID], job: Job) -> None:
    key = str(job.pk)
    if key not in bars:
        title = f"{job.version}: {job.get_kind_display().lower()}"
        bars[key] = progress.add_task(title, total=1.0, start=False, stage=job.state)
    if job.state == Job.State.RUNNING:
        progress.start_task(bars[key])
    done = job.state == Job.State.SUCCEEDED
    stage = job.stage if job.state == Job.State.RUNNING else job.get_state_display().lower()
    progress.update(bars[key], completed=1.0 if done else job.progress, stage=stage)
    if job.state in TERMINAL:
        progress.stop_task(bars[key])

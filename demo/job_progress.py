"""The progress of the demo's jobs at a terminal."""

from types import TracebackType
from typing import Final, Self

from django.db import DatabaseError, InterfaceError, connections
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from demo.record.models import DemoPart
from demo.record.removal import part_versions_of
from demo.record.selectors import SUBJECT, DemoState, DemoStatus, demo_status
from tenants.base.background_jobs import BackgroundKind
from tenants.base.errors import ErrorCode, HmiError
from versiontree.jobs.models import Job, JobState
from versiontree.tree.models import Alias, Hplm
from versiontree.tree.models.hplm import DEFAULT_ALIAS

POLL_S = 1.0
LINES: Final = {JobState.RUNNING: "started", JobState.SUCCEEDED: "done"}


class DemoError(HmiError):
    """A step of the demo did not end well; the message says which and why."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.JOB_CRASHED, message)


class DemoProgress:
    """Shows the jobs of the demo while they run: bars that disappear with them, or where the output is no
    terminal a line for each change of a job's state. Call `update` again and again until it returns False.

    first: the tenant's slug and the name of a model; a line says when it answers.
    """

    def __init__(self, console: Console, first: tuple[str, str]) -> None:
        self.status = DemoStatus(DemoState.WORKING)
        self._console = console
        self._first: tuple[str, str] | None = first
        columns = (
            TextColumn("{task.description:<42}"),
            BarColumn(bar_width=16),
            TextColumn("{task.percentage:>4.0f}%  {task.fields[stage]}"),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._bars: dict[str, TaskID] = {}
        self._states: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def update(self) -> bool:
        """Show what has changed. False once the demo is no longer worked at, which `status` tells."""
        try:
            status, jobs = demo_status(), _jobs()
            for job in jobs:
                self._draw(job)
            self._say_first_answer()
            self.status = status
        except (DatabaseError, InterfaceError):  # the launcher is about to start the server again
            connections.close_all()
        if self.status.state == DemoState.WORKING:
            return True
        self._progress.stop()
        return False

    def _say_first_answer(self) -> None:
        if self._first is None:
            return
        tenant, name = self._first
        hplm = Hplm.unscoped.filter(tenant__slug=tenant, name=name, deleted_at=None)
        if Alias.unscoped.filter(hplm__in=hplm, name=DEFAULT_ALIAS).exists():
            self._first = None
            self._console.print(f"  [green]✓[/green] {tenant}/{name} answers now.", highlight=False)

    def _draw(self, job: Job) -> None:
        key, title = str(job.pk), _title(job)
        before = self._states.get(key)
        self._states[key] = job.state
        if before != job.state:
            self._say(title, job, is_news=before is not None or job.state == JobState.RUNNING)
        if job.state == JobState.RUNNING:
            if key not in self._bars:
                self._bars[key] = self._progress.add_task(title, total=1.0, stage="")
            self._progress.update(self._bars[key], completed=job.progress, stage=job.stage)
        elif key in self._bars:
            self._progress.remove_task(self._bars.pop(key))

    def _say(self, title: str, job: Job, *, is_news: bool) -> None:
        """A line for a job that did not succeed, and where there are no bars for each job."""
        if not is_news or job.version_id is None:
            return
        if job.state in (JobState.FAILED, JobState.CANCELLED):
            reason = job.error_message or job.get_state_display()
            self._console.print(f"  [red]✗[/red] {escape(f'{title}: {reason}')}", highlight=False)
        elif not self._console.is_terminal and (done := LINES.get(JobState(job.state))):
            self._console.print(f"  {title}: {done}", highlight=False)


def _jobs() -> list[Job]:
    """The jobs of all parts, and the demo's own."""
    parts = DemoPart.unscoped.select_related("root", "domain", "hplm")
    versions = [pk for part in parts for pk in part_versions_of(part).values_list("pk", flat=True)]
    jobs = Job.unscoped.filter(version__in=versions).select_related(
        "version__hplm__tenant", "version__domain__root", "version__root"
    )
    own = Job.unscoped.filter(kind=BackgroundKind.DEMO, subject=SUBJECT).order_by("-created_at")[:1]
    return [*jobs.order_by("created_at", "pk"), *own]


def _title(job: Job) -> str:
    return f"{job.version}: {job.get_kind_display().lower()}" if job.version_id else "demo"

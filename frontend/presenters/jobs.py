"""Jobs as pages show them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from frontend.presenters.metrics import metric_name, written
from frontend.presenters.wording import metric_words
from frontend.status import SKIPPED
from versiontree.jobs.models import Job, JobState
from versiontree.jobs.selectors import queue_positions
from versiontree.tree.models import Version

ADVICE = {
    "job_crashed": "This is a bug in HMI. Retry the job. If it fails again, contact your administrator.",
    "corpus_too_small": "Upload a longer corpus, then update the domain with it.",
    "one_label": "Upload a dataset with at least two labels.",
    "too_few_rows": "Upload a dataset with more rows.",
    "training_diverged": "Train again with a smaller learning rate.",
    "out_of_disk": "The server has no disk space left. Contact your administrator, then retry the job.",
    "out_of_memory": "A single row does not fit in memory. Use shorter texts, or contact your administrator.",
}
_HEADLINE = ("metric", "value")
_ENDED_BADLY = (JobState.FAILED, JobState.CANCELLED)
ADVICE_OTHERWISE = "Retry the job. If it fails again, contact your administrator."


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in words: what it does, to what, how far it is, and what a person can do about it."""

    pk: UUID
    after: UUID | None
    title: str
    subject: str
    state: str
    active: bool
    retriable: bool
    cancel_requested: bool
    stage: str
    progress: float
    eta_seconds: float | None
    seconds: float | None
    since: datetime
    attempt: int
    max_attempts: int
    error_code: str
    error_message: str
    advice: str
    outcome: str
    place: int | None


def job_row(job: Job, place: int | None = None) -> JobRow:
    """The row of one job, `place` its place in the queue; its version's owner should be loaded already."""
    return JobRow(
        pk=job.pk,
        after=job.after_id,
        title=job.get_kind_display(),
        subject=f"{job.version.name} v{job.version.number}",
        state=_state(job),
        active=job.is_active,
        retriable=_is_retriable(job),
        cancel_requested=job.cancel_requested_at is not None,
        stage=_stage(job),
        progress=1.0 if job.state == JobState.SUCCEEDED else job.progress,
        eta_seconds=job.eta_seconds,
        seconds=_seconds(job),
        since=job.started_at or job.created_at,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        error_code=job.error_code,
        error_message=job.error_message if job.state == JobState.FAILED else "",
        advice=ADVICE.get(job.error_code, ADVICE_OTHERWISE),
        outcome=_outcome(job),
        place=place,
    )


def first_job_of(version: Version) -> Job:
    """The job that the building of a version begins with."""
    return next(job for job in version.jobs.all() if job.after_id is None)


def jobs_of_version(version: Version) -> list[JobRow]:
    """The rows of the jobs that a version was made by, the first first; they should be loaded already."""
    return job_rows(sorted(version.jobs.all(), key=lambda job: (job.created_at, job.kind)))


def job_rows(jobs: Iterable[Job]) -> list[JobRow]:
    """The rows of a list, in the order given, each with its place in the queue; one query."""
    listed = list(jobs)
    places = queue_positions(listed)
    return [job_row(job, places.get(job.pk)) for job in listed]


def figures(metrics: Mapping[str, object]) -> list[tuple[str, str]]:
    """The plain figures of a metrics object as (name, written figure); nested parts have their own panels."""
    value = metrics.get("value")
    headline = []
    if "metric" in metrics and isinstance(value, int | float):
        headline.append((metric_name(metrics), written(str(metrics["metric"]), value)))
    return headline + [
        (metric_words(name), _written(value))
        for name, value in sorted(metrics.items())
        if name not in _HEADLINE and isinstance(value, int | float | str) and not isinstance(value, bool)
    ]


def _stage(job: Job) -> str:
    """What it is doing; a job that runs but has not said yet is starting, the others wait."""
    if not job.is_active:
        return ""
    return job.stage or ("starting" if job.state == JobState.RUNNING else "waiting")


def _state(job: Job) -> str:
    """Nobody cancelled what was never begun because the job before it ended badly."""
    broken = job.state == JobState.CANCELLED and job.after is not None and job.after.state in _ENDED_BADLY
    return SKIPPED if broken and job.started_at is None else job.state


def _is_retriable(job: Job) -> bool:
    """Ended badly, and not only because the job before it did: then that one is to be retried."""
    return job.state in _ENDED_BADLY and (job.after is None or job.after.state not in _ENDED_BADLY)


def _outcome(job: Job) -> str:
    """What came of it, in a few words: why it failed, or what it measured."""
    if job.state == JobState.FAILED:
        return job.error_message
    measured = figures(job.metrics) if "metric" in job.metrics else []
    return " ".join(measured[0]) if measured else ""


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _seconds(job: Job) -> float | None:
    if job.started_at is None:
        return None
    return ((job.finished_at or timezone.now()) - job.started_at).total_seconds()

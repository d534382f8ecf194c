"""Jobs as pages show them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from versiontree.models import Job
from versiontree.models.job import JobState

ADVICE = {
    "job_crashed": "The fault is on our side. Try again; if it happens twice, tell your administrator.",
    "corpus_too_small": "Upload a longer corpus and update the domain with it.",
    "one_label": "Upload a dataset with at least two labels.",
    "too_few_rows": "Upload a dataset with more rows.",
}
ADVICE_OTHERWISE = "Try again; if it happens twice, tell your administrator."


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in words: what it does, to what, how far it is, and what a person can do about it."""

    pk: UUID
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


def job_row(job: Job) -> JobRow:
    """The row of one job; its version's owner should be loaded already."""
    return JobRow(
        pk=job.pk,
        title=job.get_kind_display(),
        subject=f"{job.version.name} v{job.version.number}",
        state=job.state,
        active=job.is_active,
        retriable=job.state in (JobState.FAILED, JobState.CANCELLED),
        cancel_requested=job.cancel_requested_at is not None,
        stage=job.stage if job.is_active else "",
        progress=1.0 if job.state == JobState.SUCCEEDED else job.progress,
        eta_seconds=job.eta_seconds,
        seconds=_seconds(job),
        since=job.started_at or job.created_at,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        error_code=job.error_code,
        error_message=job.error_message if job.state == JobState.FAILED else "",
        advice=ADVICE.get(job.error_code, ADVICE_OTHERWISE),
    )


def job_rows(jobs: Iterable[Job]) -> list[JobRow]:
    """The rows of a list, in the order given."""
    return [job_row(job) for job in jobs]


def figures(metrics: Mapping[str, object]) -> list[tuple[str, str]]:
    """The plain numbers of a metrics object as (name, written figure); nested parts are left to their own panels."""
    return [
        (name.replace("_", " "), _written(value))
        for name, value in metrics.items()
        if isinstance(value, int | float | str) and not isinstance(value, bool)
    ]


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _seconds(job: Job) -> float | None:
    if job.started_at is None:
        return None
    return ((job.finished_at or timezone.now()) - job.started_at).total_seconds()

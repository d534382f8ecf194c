"""Rows of jobs, with state, progress and advice."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils import timezone

from frontend.presenters.formatting import metric_label, metric_name, metric_value, percent
from frontend.status import SKIPPED
from tenants.base.file_sizes import file_size
from versiontree.jobs.models import Job, JobKind, JobState
from versiontree.jobs.selectors import queue_positions
from versiontree.tree.models import Version
from versiontree.tree.selectors.versions import as_mapping

ADVICE = {
    "job_crashed": "This is a bug in HMI. Retry the job. If it fails again, contact your administrator.",
    "corpus_too_small": "Upload a longer corpus, then update the domain with it.",
    "one_label": "Upload a dataset with at least two labels.",
    "too_few_rows": "Upload a dataset with more rows.",
    "training_diverged": "Train again with a smaller learning rate.",
    "out_of_disk": "The server has no disk space left. Contact your administrator, then retry the job.",
    "out_of_memory": "A single row does not fit in memory. Use shorter texts, or contact your administrator.",
}
STAGES: Final = {
    "start": "starting",
    "open checkpoint": "reading the checkpoint",
    "closed form": "fitting the lower layers",
    "distil": "training the lower layers",
    "mixer": "training the context layer",
    "look up": "preparing data",
    "compute in full": "preparing data (full)",
    "states": "preparing data",
    "read for the language model head": "preparing language-model training",
    "fit language model head": "preparing language-model training",
    "further pretrain": "training",
    "further pretrain with full context": "training (full)",
    "fine-tune": "training",
    "fit": "training",
    "store artifacts": "saving",
}
"""What pages call the stages that workers report; others by their own names."""
_MAIN_METRIC = ("metric", "value")
_NOT_SHOWN = (*_MAIN_METRIC, "imbalance")
_FAILED_STATES = (JobState.FAILED, JobState.CANCELLED)
DEFAULT_ADVICE = "Retry the job. If it fails again, contact your administrator."


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job with what pages compute: its title, state, progress and outcome, and advice if it failed. `place`
    is its position in the queue."""

    job: Job
    title: str
    subject: str
    state: str
    retriable: bool
    stage: str
    progress: float
    seconds: float | None
    error_message: str
    advice: str
    outcome: str
    place: int | None


def job_row(job: Job, place: int | None = None) -> JobRow:
    """Return the row of a job; `place` is its position in the queue. Its version should be prefetched."""
    return JobRow(
        job,
        title=job.get_kind_display(),
        subject=f"{job.version.name} v{job.version.number}",
        state=_state(job),
        retriable=_is_retriable(job),
        stage=_stage(job),
        progress=1.0 if job.state == JobState.SUCCEEDED else job.progress,
        seconds=_seconds(job),
        error_message=job.error_message if job.state == JobState.FAILED else "",
        advice=ADVICE.get(job.error_code, DEFAULT_ADVICE),
        outcome=_outcome(job),
        place=place,
    )


def first_job_of(version: Version) -> Job:
    """Return the first job that builds a version."""
    return next(job for job in version.jobs.all() if job.after_id is None)


def jobs_of_version(version: Version) -> list[JobRow]:
    """Return the rows of the jobs of a version, oldest first. They should be prefetched."""
    return job_rows(sorted(version.jobs.all(), key=lambda job: (job.created_at, job.kind)))


def job_rows(jobs: Iterable[Job]) -> list[JobRow]:
    """Return the rows of jobs in the given order, with queue positions. One query."""
    listed = list(jobs)
    places = queue_positions(listed)
    return [job_row(job, places.get(job.pk)) for job in listed]


def reported_metrics(job: Job) -> Mapping[str, Any]:
    """Return the metrics of a job; of a quick version those of its evaluation, which it does itself."""
    metrics: Mapping[str, Any] = job.metrics
    return as_mapping(metrics.get(JobKind.EVALUATE)) if job.kind == JobKind.QUICK else metrics


def figures(metrics: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the top-level metrics as (label, formatted value); nested ones have their own panels."""
    value = metrics.get("value")
    main = []
    if "metric" in metrics and isinstance(value, int | float):
        main.append((metric_name(metrics), metric_value(str(metrics["metric"]), value)))
    return main + [
        (metric_label(name), _metric_text(name, value))
        for name, value in sorted(metrics.items())
        if name not in _NOT_SHOWN and isinstance(value, int | float | str) and not isinstance(value, bool)
    ]


def _stage(job: Job) -> str:
    """Return the stage of an active job: the reported one, otherwise starting or waiting."""
    if not job.is_active:
        return ""
    return stage_label(job.stage) or ("starting" if job.state == JobState.RUNNING else "waiting")


def _state(job: Job) -> str:
    """Return the state; "skipped" if the job was cancelled because the job before it failed."""
    broken = job.state == JobState.CANCELLED and job.after is not None and job.after.state in _FAILED_STATES
    return SKIPPED if broken and job.started_at is None else job.state


def _is_retriable(job: Job) -> bool:
    """Return whether to offer a retry: the job failed, and the job before it did not."""
    return job.state in _FAILED_STATES and (job.after is None or job.after.state not in _FAILED_STATES)


def _outcome(job: Job) -> str:
    """Return the error message or the main metric of a job."""
    if job.state == JobState.FAILED:
        return job.error_message
    reported = reported_metrics(job)
    measured = figures(reported) if "metric" in reported else []
    return " ".join(measured[0]) if measured else ""


def stage_label(stage: str) -> str:
    """Return what pages call a stage of a job."""
    return STAGES.get(stage, stage)


def _metric_text(name: str, value: object) -> str:
    if name == "bytes" and isinstance(value, int | float):
        return file_size(value)
    if name.endswith("share") and isinstance(value, int | float):
        return percent(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _seconds(job: Job) -> float | None:
    if job.started_at is None:
        return None
    return ((job.finished_at or timezone.now()) - job.started_at).total_seconds()

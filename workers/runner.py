"""Runs one job: claims it, works under a lease, stores its artifacts, and saves its outcome."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from tenants.base.background_jobs import BackgroundKind, RunLater, background_work
from tenants.base.child_process import WorkerStopping, is_stopping
from tenants.base.dispatch import TRAINING_QUEUE
from tenants.base.machine_lock import machine_lock
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.jobs.models import TERMINAL, Job, JobKind, JobState
from versiontree.jobs.services.lifecycle import (
    job_claim,
    job_confirm_cancel,
    job_fail,
    job_postpone,
    job_release,
    job_succeed,
)
from versiontree.jobs.services.transitions import LeaseLost, job_set_waiting_stage
from versiontree.tree.models import RootKind
from versiontree.tree.selectors.past_jobs import stage_shares
from workers.failures import failure_from
from workers.jobs.outcome import JobOutcome, to_json
from workers.lease import LEASE_S, JobLease
from workers.reporter import DatabaseReporter
from workers.sharding import ShardWork, process_shards, worker_name
from workers.training.progress import Cancelled
from workers.workspace import job_staging, job_workspace, remove_staging

log = logging.getLogger(__name__)

STORE_STAGE = "store artifacts"


class JobModule(Protocol):
    """`workers.jobs.<kind>`, or below a decoder root `workers.jobs.generative.<kind>`: its stages with their
    shares of the time, and the work itself."""

    STAGES: tuple[tuple[str, float], ...]
    run: Callable[[Job, ArtifactStore, Path, DatabaseReporter], JobOutcome]


class SharedJobModule(JobModule, Protocol):
    """A job module whose work is split into shards that other workers can process."""

    shard_work: Callable[[Job, ArtifactStore], ShardWork]


def run_job(job_id: UUID) -> None:
    """Run the job if it is still queued; a duplicate or late delivery does nothing.

    Waits while this machine runs another job of the same queue: two would compete for cores, memory and
    accelerator. Meanwhile the job stays queued, so another machine may take it.
    """
    kind = Job.shown.filter(pk=job_id).values_list("kind", flat=True).first()
    if kind is None:
        log.info("Job %s is not queued: it is gone", job_id)
        return
    with machine_lock(JobKind(kind).queue, partial(_is_still_queued, job_id)) as acquired:
        if acquired:
            _run(job_id)
        else:
            log.info("Job %s is not queued any more", job_id)


def run_background_job(job_id: UUID, *, lease_type: Callable[..., JobLease] = JobLease) -> None:
    """Run a background job if it is still queued; a duplicate or late delivery does nothing."""
    worker = worker_name()
    job = job_claim(job_id=job_id, worker=worker, lease_s=LEASE_S)
    if job is None:
        return
    lease = lease_type(job_id=job.pk, worker=worker)
    try:
        with lease:
            reporter = DatabaseReporter(lease, [(job.kind, 1.0)])
            metrics = background_work[BackgroundKind(job.kind)].run(job.subject, reporter)
            lease.flush()
        _fresh_connection()
        job_succeed(job_id=job.pk, worker=worker, metrics=metrics, artifacts=[])
    except Exception as error:  # noqa: BLE001 - any error must be saved to the job
        _save_failure(job, worker, LeaseLost() if lease.lost else error)


def help_job(job_id: UUID) -> None:
    """Process shards of a running job until none is left; does nothing if this machine is busy."""
    with machine_lock(TRAINING_QUEUE) as acquired:
        job = Job.unscoped.select_related("version__root").filter(pk=job_id, state=JobState.RUNNING).first()
        if not acquired or job is None:
            return
        try:
            _help(job)
        finally:
            # The job's own worker may have removed the staging folder while this one still wrote to it.
            if Job.unscoped.filter(pk=job_id, state__in=TERMINAL).exists():
                remove_staging(_store(), job_id)


def _help(job: Job) -> None:
    module: SharedJobModule = import_module(_module_of(job))
    store = _store()
    with suppress(WorkerStopping):
        count = process_shards(job.pk, job_staging(store, job.pk), module.shard_work(job, store))
        log.info("Processed %d shards of job %s", count, job.pk)


def _run(job_id: UUID) -> None:
    worker = worker_name()
    job = job_claim(job_id=job_id, worker=worker, lease_s=LEASE_S)
    if job is None:
        log.info("Job %s is not queued", job_id)
        return
    log.info("Job %s (%s) started, attempt %d", job_id, job.kind, job.attempt)
    try:
        outcome = _work(job, worker)
        log.info("Job %s succeeded", job_id)
    except Exception as error:  # noqa: BLE001 - any error must be saved to the job
        _save_failure(job, worker, error)
    else:
        _follow_up(job, outcome)


def _is_still_queued(job_id: UUID) -> bool:
    """Whether to keep waiting for this machine; marks the job as waiting."""
    return not is_stopping() and job_set_waiting_stage(job_id=job_id)


def _module_of(job: Job) -> str:
    package = "workers.jobs.generative" if job.version.root.kind == RootKind.DECODER else "workers.jobs"
    return f"{package}.{job.kind}"


def _store() -> ArtifactStore:
    return ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))


def _work(job: Job, worker: str) -> JobOutcome:
    module: JobModule = import_module(_module_of(job))
    store = _store()
    lease = JobLease(job_id=job.pk, worker=worker)
    with lease, job_workspace(store, job.pk) as workspace:
        plan = stage_shares(JobKind(job.kind), job.version.root_id, (*module.STAGES, (STORE_STAGE, 0.02)))
        reporter = DatabaseReporter(lease, plan)
        try:
            outcome = module.run(job, store, workspace, reporter)
            artifacts = _ingest(outcome, store, reporter)
        except Exception:
            # Errors after the lease was lost are consequences of that.
            if lease.lost:
                raise LeaseLost from None
            raise
        lease.flush()
        _fresh_connection()
        job_succeed(job_id=job.pk, worker=worker, metrics=to_json(outcome.metrics), artifacts=artifacts)
    remove_staging(store, job.pk)
    return outcome


def _ingest(
    outcome: JobOutcome, store: ArtifactStore, reporter: DatabaseReporter
) -> list[tuple[str, StoredArtifact]]:
    reporter.start_stage(STORE_STAGE, len(outcome.artifacts))
    stored = list(outcome.reused.items())
    for done, (role, folder) in enumerate(outcome.artifacts.items(), start=1):
        stored.append((role, store.ingest(role, folder)))
        reporter.report(done)
    return stored


def _follow_up(job: Job, outcome: JobOutcome) -> None:
    """Call `on_success`; an error in it does not fail the job."""
    if outcome.on_success is None:
        return
    try:
        outcome.on_success()
    except Exception:
        log.exception("Job %s succeeded, but its on_success callback failed", job.pk)


def _save_failure(job: Job, worker: str, error: Exception) -> None:
    """Save how the job ended; nothing if the lease or the database connection was lost."""
    with suppress(LeaseLost):
        try:
            _fresh_connection()
            match error:
                case LeaseLost():
                    log.warning("Job %s lost its lease to another worker (this was %s)", job.pk, worker)
                case Cancelled():
                    job_confirm_cancel(job_id=job.pk, worker=worker)
                    remove_staging(_store(), job.pk)
                case WorkerStopping():
                    job_release(job_id=job.pk, worker=worker)
                case RunLater():
                    job_postpone(job_id=job.pk, worker=worker, after_s=error.after_s)
                case OperationalError() | InterfaceError():
                    # Not the job's fault, but it may happen again: lease recovery counts an attempt.
                    log.warning("Job %s lost the database; it is queued again later: %s", job.pk, error)
                case _:
                    _fail(job, worker, error)
        except (OperationalError, InterfaceError) as down:
            log.warning("Job %s is queued again when its lease expires: %s", job.pk, down)


def _fail(job: Job, worker: str, error: Exception) -> None:
    log.warning("Job %s failed", job.pk, exc_info=error)
    failure = failure_from(error)
    job_fail(
        job_id=job.pk,
        worker=worker,
        code=failure.code,
        message=failure.message,
        traceback=failure.traceback,
    )
    remove_staging(_store(), job.pk)


def _fresh_connection() -> None:
    """Close a connection that may have died during hours of training; the next query opens another."""
    if not connection.in_atomic_block:
        connection.close()

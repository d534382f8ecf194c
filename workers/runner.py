"""Running one job: claim it, work under a lease, keep what was made, write down how it ended."""

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

from tenants.base.child_process import WorkerStopping, is_stopping
from tenants.base.machine_lock import machine_lock
from versiontree.artifact_store import ArtifactStore, StoredArtifact
from versiontree.jobs.models import TERMINAL, Job, JobState
from versiontree.jobs.services.lifecycle import (
    job_claim,
    job_confirm_cancel,
    job_fail,
    job_release,
    job_succeed,
)
from versiontree.jobs.services.transitions import LeaseLost, job_set_waiting_stage
from workers.failures import explain
from workers.jobs.outcome import JobOutcome, plain
from workers.lease import LEASE_S, JobLease
from workers.reporter import DatabaseReporter
from workers.sharding import ShardWork, do_shards, worker_name
from workers.training.progress import Cancelled
from workers.workspace import job_staging, job_workspace, remove_staging

log = logging.getLogger(__name__)

STORE_STAGE = "store artifacts"
TRAINING = "training"
"""The lock of this machine: one job at a time, or two would thrash its cores, memory and accelerator."""


class JobModule(Protocol):
    """`workers.jobs.<kind>`: its stages with their share of the time, and the work itself."""

    STAGES: tuple[tuple[str, float], ...]
    run: Callable[[Job, ArtifactStore, Path, DatabaseReporter], JobOutcome]


class SharedJobModule(JobModule, Protocol):
    """One whose work can be shared: what a helper does with a shard."""

    shard_work: Callable[[Job, ArtifactStore], ShardWork]


def run_job(job_id: UUID) -> None:
    """Run the job if it is still there to be run; a second or a late delivery comes to nothing.

    Waits, with the job queued, while this machine is busy with another: a machine that is not may take it.
    """
    with machine_lock(TRAINING, partial(_still_wanted, job_id)) as mine:
        if mine:
            _run(job_id)
        else:
            log.info("Job %s is not waiting for this machine any more", job_id)


def help_job(job_id: UUID) -> None:
    """Do shards of a running job, unless this machine is busy, until none is left or the job is over."""
    with machine_lock(TRAINING) as mine:
        job = Job.unscoped.select_related("version").filter(pk=job_id, state=JobState.RUNNING).first()
        if not mine or job is None:
            return
        try:
            _help(job)
        finally:
            # The worker that ran the job removed its staging folder while this one still wrote to it.
            if Job.unscoped.filter(pk=job_id, state__in=TERMINAL).exists():
                remove_staging(_store(), job_id)


def _help(job: Job) -> None:
    module: SharedJobModule = import_module(f"workers.jobs.{job.kind}")
    store = _store()
    with suppress(WorkerStopping):
        done = do_shards(job.pk, job_staging(store, job.pk), module.shard_work(job, store))
        log.info("Helped job %s with %d of its parts", job.pk, done)


def _run(job_id: UUID) -> None:
    worker = worker_name()
    job = job_claim(job_id=job_id, worker=worker, lease_s=LEASE_S)
    if job is None:
        log.info("Job %s is not waiting to be run", job_id)
        return
    log.info("Job %s (%s) begins, attempt %d", job_id, job.kind, job.attempt)
    try:
        outcome = _work(job, worker)
        log.info("Job %s succeeded", job_id)
    except Exception as error:  # noqa: BLE001 - whatever it was, the job row must say so
        _end(job, worker, error)
    else:
        _follow_up(job, outcome)


def _still_wanted(job_id: UUID) -> bool:
    """Whether to wait on for this machine's turn; says on the job's row that somebody does."""
    return not is_stopping() and job_set_waiting_stage(job_id=job_id)


def _store() -> ArtifactStore:
    return ArtifactStore(Path(settings.HMI_ARTIFACT_ROOT))


def _work(job: Job, worker: str) -> JobOutcome:
    module: JobModule = import_module(f"workers.jobs.{job.kind}")
    store = _store()
    keeper = JobLease(job_id=job.pk, worker=worker)
    with keeper, job_workspace(store, job.pk) as folder:
        reporter = DatabaseReporter(keeper, (*module.STAGES, (STORE_STAGE, 0.02)))
        try:
            outcome = module.run(job, store, folder, reporter)
            artifacts = _ingest(outcome, store, reporter)
        except Exception:
            # Whatever broke after the lease was lost broke because of it.
            if keeper.lost:
                raise LeaseLost from None
            raise
        keeper.flush()
        _fresh_connection()
        job_succeed(job_id=job.pk, worker=worker, metrics=plain(outcome.metrics), artifacts=artifacts)
    remove_staging(store, job.pk)
    return outcome


def _ingest(
    outcome: JobOutcome, store: ArtifactStore, reporter: DatabaseReporter
) -> list[tuple[str, StoredArtifact]]:
    reporter.stage(STORE_STAGE, len(outcome.artifacts))
    stored = list(outcome.reused.items())
    for done, (role, folder) in enumerate(outcome.artifacts.items(), start=1):
        stored.append((role, store.ingest(role, folder)))
        reporter.advance(done)
    return stored


def _follow_up(job: Job, outcome: JobOutcome) -> None:
    """What is to be done once the job is known to have succeeded; if it fails, it was not needed."""
    if outcome.on_success is None:
        return
    try:
        outcome.on_success()
    except Exception:
        log.exception("Job %s succeeded, but what was to follow did not", job.pk)


def _end(job: Job, worker: str, error: Exception) -> None:
    """Write down an end that is not a success. Whoever lost the lease, or the database, writes nothing."""
    with suppress(LeaseLost):
        try:
            _fresh_connection()
            match error:
                case LeaseLost():
                    log.warning("Job %s was taken away from %s", job.pk, worker)
                case Cancelled():
                    job_confirm_cancel(job_id=job.pk, worker=worker)
                    remove_staging(_store(), job.pk)
                case WorkerStopping():
                    job_release(job_id=job.pk, worker=worker)
                case OperationalError() | InterfaceError():
                    # Not the job's fault, but it may happen again: the end of the lease counts an attempt.
                    log.warning("Job %s lost the database and goes back later: %s", job.pk, error)
                case _:
                    _fail(job, worker, error)
        except (OperationalError, InterfaceError) as down:
            log.warning("Job %s goes back when its lease ends: %s", job.pk, down)


def _fail(job: Job, worker: str, error: Exception) -> None:
    log.warning("Job %s failed", job.pk, exc_info=error)
    failure = explain(error)
    job_fail(
        job_id=job.pk,
        worker=worker,
        code=failure.code,
        message=failure.message,
        traceback=failure.traceback,
    )
    remove_staging(_store(), job.pk)


def _fresh_connection() -> None:
    """A connection that was idle through an hour of training may be dead; the next query opens another."""
    if not connection.in_atomic_block:
        connection.close()

"""Errors of the version tree that callers catch by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

from tenants.base.errors import ErrorCode, HmiError


class LeaseLost(HmiError):
    """The job is no longer this worker's: its lease ran out, or somebody ended the job."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.LEASE_LOST, "The worker lost its lease on this job.")


STAGING: Final = ".staging"


def staging_folder(store: Path, job_id: UUID) -> Path:
    """The staging folder of a job, whether or not it is there."""
    return store / STAGING / str(job_id)


def staged_jobs(store: Path) -> Iterator[tuple[UUID, Path]]:
    """The jobs that have a staging folder, with it."""
    folder = store / STAGING
    for found in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            yield UUID(found.name), found
        except ValueError:
            continue

"""Where a job keeps what its next attempt, or another worker, goes on from. No Django in here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

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

"""The folders of a job, both on the store's own disk.

In its workspace an attempt builds artifacts; it is gone when the attempt ends. In its staging folder a job
keeps what the next attempt, or another worker, goes on from; it outlives workers and is gone when the job
ends.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID, uuid4

from tenants.base.disk import INCOMING
from versiontree.artifact_store import ArtifactStore, staging_folder


@contextmanager
def job_workspace(store: ArtifactStore, job_id: UUID) -> Iterator[Path]:
    """An empty folder named after the job, so that a retry removes what a killed attempt left.

    A predecessor may still be alive without knowing that it lost the job. It then fails for want of its
    folder, which is as good an end for it as any: nothing it wrote would have counted.
    """
    incoming = store.root / INCOMING
    incoming.mkdir(parents=True, exist_ok=True)
    for abandoned in incoming.glob(f"job-{job_id}-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    folder = incoming / f"job-{job_id}-{uuid4().hex[:8]}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def job_staging(store: ArtifactStore, job_id: UUID) -> Path:
    """The job's staging folder; made when there is none."""
    folder = staging_folder(store.root, job_id)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def remove_staging(store: ArtifactStore, job_id: UUID) -> None:
    """The job has ended: nobody goes on from what it kept."""
    folder = staging_folder(store.root, job_id)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # other jobs have theirs
        folder.parent.rmdir()

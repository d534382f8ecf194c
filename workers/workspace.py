"""The folders of a job, both on the store's own disk.

The workspace is where an attempt builds artifacts; it is removed when the attempt ends. The staging folder
keeps what the next attempt or another worker continues from; it is removed when the job ends.
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
    """An empty folder for an attempt; removes those of earlier attempts.

    An earlier attempt may still run without knowing that it lost the job. It then fails because its folder is
    gone, which is harmless: its result would be discarded.
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
    """The job's staging folder, created if missing."""
    folder = staging_folder(store.root, job_id)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def remove_staging(store: ArtifactStore, job_id: UUID) -> None:
    """Remove the staging folder of a job that ended."""
    folder = staging_folder(store.root, job_id)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # not empty: other jobs use it
        folder.parent.rmdir()

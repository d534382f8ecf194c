"""The folder a job builds in: named after the job, so that a retry removes what a killed attempt left."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID, uuid4

from versiontree.artifacts import ArtifactStore


@contextmanager
def job_workspace(store: ArtifactStore, job_id: UUID) -> Iterator[Path]:
    """An empty folder on the store's own disk, so that ingesting from it is a rename; gone afterwards.

    A predecessor may still be alive without knowing that it lost the job. It then fails for want of its
    folder, which is as good an end for it as any: nothing it wrote would have counted.
    """
    incoming = store.root / ".incoming"
    incoming.mkdir(parents=True, exist_ok=True)
    for abandoned in incoming.glob(f"job-{job_id}-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    folder = incoming / f"job-{job_id}-{uuid4().hex[:8]}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

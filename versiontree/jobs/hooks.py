"""What the owner of jobs does when they change state: the version tree registers itself here
(`register_owner`).

Jobs know that they belong to a version and nothing else of the tree. All functions are called inside the
transaction that changes the job, `check_retry` before the version is locked.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from versiontree.artifact_store import StoredArtifact
from versiontree.jobs.models import Job, JobState


class JobOwner(Protocol):
    """The version that jobs build, as far as jobs need it."""

    def lock(self, *, version_id: int) -> None:
        """Lock the version's row: the jobs of one version change one at a time. Taken before any job row."""
        ...

    def lock_to_finish(self, *, version_id: int) -> None:
        """The same, with whatever `finish` locks taken before it."""
        ...

    def attach(self, *, job: Job, artifacts: Sequence[tuple[str, StoredArtifact]]) -> None:
        """The job succeeded and made these artifacts, as (role, artifact)."""
        ...

    def finish(self, *, version_id: int, metrics: Mapping[str, Any]) -> None:
        """All jobs of the version succeeded; their metrics by job kind."""
        ...

    def fail(self, *, version_id: int) -> None:
        """A job of the version failed or was cancelled."""
        ...

    def check_retry(self, *, job: Job, jobs: int) -> None:
        """May this many jobs of the version run again? Raises ``quota_exceeded``, ``not_found``."""
        ...

    def reopen(self, *, version_id: int) -> None:
        """A failed job runs again: the version is being built."""
        ...

    def notify(self, *, job_id: UUID | str, state: JobState) -> None:
        """A job has entered this state."""
        ...


_owner: JobOwner | None = None


def register_owner(owner: JobOwner) -> None:
    """Called once, while Django starts."""
    global _owner
    _owner = owner


def job_owner() -> JobOwner:
    """The owner that was registered."""
    assert _owner is not None, "no application owns jobs: versiontree.tree is not installed"
    return _owner
